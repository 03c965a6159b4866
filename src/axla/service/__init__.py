"""Programs that run in another process, or on another machine: `axla serve`, and `axla.connect`.

    messages.py      encodes and decodes the messages (messages.txt)
    transport.py     transports: a unix socket with shared memory, and the interface for others
    supervisor.py    the server: admits clients, starts and monitors a worker process for each
    worker.py        the process for one client
    session.py       handles requests in a worker, which keeps numbered programs and arrays
    link.py          the client's end of a connection: sends calls, receives answers
    remote.py        the backend `remote`: its client, executables and arrays

Read docs/design/0013-service.md first.
"""
