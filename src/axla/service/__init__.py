"""Programs that run in another process, or on another machine: `axla serve`, and `axla.connect`.

    messages.py      the messages (messages.txt), errors as messages
    transport.py     transports: a unix socket with shared memory, and the interface for others
    supervisor.py    the server: admits clients, starts a worker process for each, monitors and counts
    worker.py        the process for one client
    session.py       how a worker handles requests: programs and arrays by number
    link.py          the client's end: calls and answers
    remote.py        the backend `remote`: its client, executables and arrays

Read docs/design/0013-service.md first.
"""
