"""A page opened in headless Chromium: a script in it fills in what the test asks for."""

from __future__ import annotations

import html
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WHY_NOT = "no Chromium here: apt-get install chromium"

_RESULT = re.compile(r'<pre id="result">(.*?)</pre>', re.S)
_PROBE = """<pre id="result"></pre><script>
window.problems = [];
addEventListener('error', event => problems.push(String(event.message)));
addEventListener('unhandledrejection', event => problems.push(String(event.reason)));
// A page that has nothing to draw may get no frame.
const frame = () => new Promise(done => {
  requestAnimationFrame(() => setTimeout(done));
  setTimeout(done, 100);
});
addEventListener('load', async () => {
  let result = null;
  try { result = await (async () => { %s })(); }
  catch (problem) { problems.push(String(problem.stack)); }
  document.getElementById('result').textContent = JSON.stringify({result, problems});
  document.title = 'done';
});
</script></body>"""


def run(page: str, script: str, folder: pathlib.Path, seconds: int = 60) -> Any:
    """What `script` (the body of an async function) returns; errors of the page fail the test."""
    path = folder / "probed.html"
    path.write_text(page.replace("</body>", _PROBE % script), encoding="utf-8")
    done = _chromium(seconds, f"--virtual-time-budget={seconds * 500}", "--dump-dom", path.as_uri())
    found = _RESULT.search(done)
    assert found is not None and found[1], f"the page did not finish: {done[-2000:]}"
    answer = json.loads(html.unescape(found[1]))
    assert answer["problems"] == []
    return answer["result"]


_MEASURE = """<pre id="result"></pre><script>
addEventListener('load', () => {
  let result = null, problem = null;
  try { result = (() => { %s })(); } catch (error) { problem = String(error.stack); }
  document.getElementById('result').textContent = JSON.stringify({result, problem});
});
</script></body>"""


def measure(page: str, script: str, folder: pathlib.Path, seconds: int = 60) -> Any:
    """What `script` (the body of a function) returns. Its clock is real, unlike that of run()."""
    path = folder / "measured.html"
    path.write_text(page.replace("</body>", _MEASURE % script), encoding="utf-8")
    done = _chromium(seconds, "--window-size=1440,900", "--dump-dom", path.as_uri())
    found = _RESULT.search(done)
    assert found is not None and found[1], f"the page did not finish: {done[-2000:]}"
    answer = json.loads(html.unescape(found[1]))
    assert answer["problem"] is None, answer["problem"]
    return answer["result"]


def screenshot(
    page: pathlib.Path, fragment: str, to: pathlib.Path, dark: bool = False, height: int = 900
) -> None:
    """A picture of the page as it opens at #fragment."""
    _chromium(
        60,
        f"--window-size=1440,{height}",
        "--hide-scrollbars",
        "--virtual-time-budget=4000",
        f"--screenshot={to}",
        f"{page.as_uri()}?theme={'dark' if dark else 'light'}#{fragment}",
    )


def _chromium(seconds: int, *words: str) -> str:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as profile:
        command = [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            f"--user-data-dir={profile}",
            *words,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds * 2, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
