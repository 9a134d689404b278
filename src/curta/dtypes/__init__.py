"""Dtypes: which there are, how they promote, and the default ones."""

from curta.dtypes.extended import *
from curta.dtypes.promotion import *
from curta.dtypes.scalars import *
from curta.errors import TypePromotionError as TypePromotionError
