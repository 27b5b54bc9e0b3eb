# Nothing is named here: a module of ops loads its op when it is imported.
