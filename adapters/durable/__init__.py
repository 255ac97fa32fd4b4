"""Calls and turns that outlive their process, on DBOS.

* `durable` and `handle` are what users see; `batch` runs the prompts of a file.
* `workflows` begins, finds, runs and cancels calls; `engine` is DBOS in this process, and
  `databases` knows which other processes are alive.
* `work` is what a database is given to do; `recorded` says how a call is resumed, with `tape` and
  `turn_tape` for calls and turns, and `driver` saves what they record.
* `forms`, `results` and `import_paths` are what the database holds, and back; `own_rows` lets
  nothing else in. `budgets` are the shared budgets in it; `listing` reads calls without running
  any.
"""
