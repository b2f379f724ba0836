"""Prints the graph of one step of a decoder with the sizes of Qwen3-0.6B and a cache.

    python bench/decoder_text.py [--layers 28] [--vocabulary 151936] [--batch 1] [--keys 152]

For what needs no weights: launches of a step (gex dump --level=program), texts of kernels.
"""

from __future__ import annotations

import argparse

HIDDEN, HEADS, KV_HEADS, HEAD, FEED = 1024, 16, 8, 128, 3072


def linear(layer: int, name: str, left: str, batch: int, rows: int, columns: int) -> list[str]:
    return [
        f"%{name}_t{layer} = transpose(%w{name}{layer}) {{perm = [1, 0]}} : f16[{columns}, {rows}]",
        f"%{name}{layer} = matmul(%{left}{layer}, %{name}_t{layer}) : f16[{batch}, {rows}]",
    ]


def rotated(layer: int, name: str, heads: int, batch: int) -> list[str]:
    """Norm and rotation of the heads of q or k."""
    whole, half = f"f16[{batch}, {heads}, 1, {HEAD}]", f"f16[{batch}, {heads}, 1, {HEAD // 2}]"
    sizes = f"steps = [1, 1, 1, 1], sizes = [{batch}, {heads}, 1, {HEAD // 2}]"
    lines = f"""
        %#r = reshape(%#) {{shape = [{batch}, {heads}, 1, {HEAD}]}} : {whole}
        %#n, %#s = rms_norm(%#r, %#w) : {whole}, f32[{batch}, {heads}, 1, 1]
        %#low = slice(%#n) {{starts = [0, 0, 0, 0], {sizes}}} : {half}
        %#high = slice(%#n) {{starts = [0, 0, 0, {HEAD // 2}], {sizes}}} : {half}
        %#neg = neg(%#high) : {half}
        %#turned = cat(%#neg, %#low) {{axis = 3}} : {whole}
        %#cos = mul(%#n, %cos) : {whole}
        %#sin = mul(%#turned, %sin) : {whole}
        %#z = add(%#cos, %#sin) : {whole}"""
    return [line.strip().replace("#", f"{name}{layer}_") for line in lines.split("\n") if line]


def layer_text(layer: int, batch: int, keys: int) -> tuple[list[str], list[str]]:
    """Parameters and statements."""
    cache = f"f16[{batch}, {KV_HEADS}, {keys}, {HEAD}]"
    hidden = f"f16[{batch}, {HIDDEN}]"
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    parameters = [
        f"%norm{layer}: f16[{HIDDEN}]",
        f"%norm_f{layer}: f16[{HIDDEN}]",
        f"%q{layer}_w: f16[{HEAD}]",
        f"%k{layer}_w: f16[{HEAD}]",
        f"%kc{layer}: {cache}",
        f"%vc{layer}: {cache}",
        *(
            f"%w{name}{layer}: f16[{rows}, {HIDDEN}]"
            for name, rows in (("q", q), ("k", kv), ("v", kv))
        ),
        f"%wo{layer}: f16[{HIDDEN}, {q}]",
        *(f"%w{name}{layer}: f16[{FEED}, {HIDDEN}]" for name in ("gate", "up")),
        f"%wdown{layer}: f16[{HIDDEN}, {FEED}]",
    ]
    body = [
        f"%n{layer}, %ns{layer} = rms_norm(%x{layer}, %norm{layer}) : {hidden}, f32[{batch}, 1]"
    ]
    for name, rows in (("q", q), ("k", kv), ("v", kv)):
        body += linear(layer, name, "n", batch, rows, HIDDEN)
    for name, heads in (("q", HEADS), ("k", KV_HEADS)):
        body += [
            line.replace(f"(%{name}{layer}_)", f"(%{name}{layer})")
            for line in rotated(layer, name, heads, batch)
        ]
    shape = f"{{shape = [{batch}, {KV_HEADS}, 1, {HEAD}]}} : f16[{batch}, {KV_HEADS}, 1, {HEAD}]"
    body += [
        f"%vr{layer} = reshape(%v{layer}) {shape}",
        f"%kk{layer} = index_put(%kc{layer}, %k{layer}_z, %at) {{axes = [2]}} : {cache}",
        f"%vv{layer} = index_put(%vc{layer}, %vr{layer}, %at) {{axes = [2]}} : {cache}",
        f"%a{layer} = attention(%q{layer}_z, %kk{layer}, %vv{layer}, none) : "
        f"f16[{batch}, {HEADS}, 1, {HEAD}]",
        f"%f{layer} = reshape(%a{layer}) {{shape = [{batch}, {q}]}} : f16[{batch}, {q}]",
        *linear(layer, "o", "f", batch, HIDDEN, q),
        f"%y{layer} = add(%o{layer}, %x{layer}) : {hidden}",
        f"%m{layer}, %ms{layer} = rms_norm(%y{layer}, %norm_f{layer}) : {hidden}, f32[{batch}, 1]",
        *linear(layer, "gate", "m", batch, FEED, HIDDEN),
        *linear(layer, "up", "m", batch, FEED, HIDDEN),
        f"%si{layer} = silu(%gate{layer}) : f16[{batch}, {FEED}]",
        f"%mu{layer} = mul(%si{layer}, %up{layer}) : f16[{batch}, {FEED}]",
        *linear(layer, "down", "mu", batch, HIDDEN, FEED),
        f"%x{layer + 1} = add(%down{layer}, %y{layer}) : {hidden}",
    ]
    return parameters, body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--keys", type=int, default=152)
    options = parser.parse_args()
    batch, last = options.batch, options.layers
    turn = f"f16[{batch}, 1, 1, {HEAD}]"
    parameters = [f"%x0: f16[{batch}, {HIDDEN}]", "%at: i64[1]", f"%cos: {turn}", f"%sin: {turn}"]
    body, results = [], ["%logits"]
    types = [f"f16[{batch}, {options.vocabulary}]"]
    for layer in range(options.layers):
        more, lines = layer_text(layer, batch, options.keys)
        parameters += more
        body += lines
        results += [f"%kk{layer}", f"%vv{layer}"]
        types += [f"f16[{batch}, {KV_HEADS}, {options.keys}, {HEAD}]"] * 2
    parameters += [f"%norm{last}: f16[{HIDDEN}]", f"%whead: f16[{options.vocabulary}, {HIDDEN}]"]
    body += [
        f"%n{last}, %ns{last} = rms_norm(%x{last}, %norm{last}) : "
        f"f16[{batch}, {HIDDEN}], f32[{batch}, 1]",
        f"%head = transpose(%whead) {{perm = [1, 0]}} : f16[{HIDDEN}, {options.vocabulary}]",
        f"%logits = matmul(%n{last}, %head) : {types[0]}",
        "return " + ", ".join(results),
    ]
    text = "\n  ".join(body)
    print(f"graph main({', '.join(parameters)}) -> ({', '.join(types)}) {{\n  {text}\n}}")


if __name__ == "__main__":
    main()
