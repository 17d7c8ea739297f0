from typing import List, Optional, Tuple

import numpy as np

def revision() -> int: ...
def instruction_set() -> str: ...
def instruction_sets() -> List[str]: ...
def choose(name: str) -> None: ...
def sums(
    x: np.ndarray,
    y: np.ndarray,
    relative: bool,
    spread: bool,
    length: int,
    rows_y: Optional[np.ndarray],
    rows_d: Optional[np.ndarray],
    columns_y: Optional[np.ndarray],
    columns_d: Optional[np.ndarray],
    keep_y: Optional[np.ndarray],
    keep_d: Optional[np.ndarray],
) -> Optional[Tuple[float, ...]]: ...
def divergence(
    x: np.ndarray, y: np.ndarray, scaling: Tuple[float, float, float, float, float, float]
) -> Optional[Tuple[float, float, float, float, float]]: ...
