//! What is said between this program and the servers in the jails: frames of bounded length.
