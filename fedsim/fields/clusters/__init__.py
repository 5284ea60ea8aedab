"""Several models at the server, of which every client trains one."""

ORDER = 20
KINDS = ("ifca", "cfl", "fedgroup")
METHODS = "methods"
FIELD = "field"
COLUMNS = "columns"
PAGE = "page"
ENDED = "agreement"
REQUIRES = ()
