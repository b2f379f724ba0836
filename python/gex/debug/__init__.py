"""Looking into compiled graphs: dumps, prints, checks of values, and the search for what is wrong.

`docs/debugging.md` says how to use it; each module here is one of those aids.
"""
