"""`import dpsql.pandas` gives every pandas data frame the accessor `.dp`: `df.dp.protect(…)`.

It imports pandas, so it works in any order of imports. `import dpsql` alone stays light: it registers the accessor only
if pandas was imported before.
"""

from __future__ import annotations

import pandas as _pandas  # noqa: F401 - it has to be there before the accessor is registered

from dpsql.interfaces.frame.accessor import register

register()
