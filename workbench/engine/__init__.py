"""Where executions run: in a worker process (the default) or in the driver."""
