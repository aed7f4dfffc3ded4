"""The text form of graphs: written by `render`, read back by `parse`; the two are exact inverses."""
