"""The sender of a request and its proof, the exchanges of a login, and the operations that can be allowed; all pure."""
