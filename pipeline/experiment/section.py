"""What all sections of an experiment are made of."""

from typing import Annotated, Any

import pydantic
from pydantic import Field

# More than TensorFlow's int32 holds no count has a use for.
_MOST = 2**31 - 1
PositiveInt = Annotated[int, Field(gt=0, le=_MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=_MOST)]
ShardCount = Annotated[int, Field(gt=0, le=99_999)]  # As many as five digits of a name tell.
# The marks and one more; SentencePiece fails without a reason on sizes beyond reason.
VocabularySize = Annotated[int, Field(ge=5, le=1_000_000)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
# A name becomes a folder's, so it is neither `.` nor `..`, and a scope's in TensorFlow's graphs.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Section(pydantic.BaseModel):
    """Base of all sections: unknown keys are refused and nothing changes after reading."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        # Pydantic takes true for 1, and YAML takes yes and on for true.
        wanted = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and wanted is not bool:
            raise ValueError(
                f"{str(value).lower()} is not expected here; YAML reads yes, no, on and off so, "
                f"unless they are quoted"
            )
        return value
