"""The process: its signals, the state that a call must leave unchanged, and progress reports."""
