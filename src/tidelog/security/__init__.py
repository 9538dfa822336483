"""Who may do what: principals, credentials, access rules and quotas. Pure: sockets and certificates are the
runtime's, the records that store all this are the controller's.
"""
