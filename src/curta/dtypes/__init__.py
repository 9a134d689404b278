"""Dtypes: definitions, promotion and defaults."""

from curta.dtypes.extended import *
from curta.dtypes.promotion import *
from curta.dtypes.scalars import *
from curta.errors import TypePromotionError as TypePromotionError
