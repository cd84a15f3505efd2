/*
 * How a key moves: each query of db/queries/idempotency.sql, and the edges along which it moves a key. This is the table of
 * docs/state_machine.md: go test ./internal/idempotency -run TestModels -update writes it. TOOK and NOT_LISTED are in claims.pml.
 */

inline ReserveKeys(key) {
    if
    :: key == none -> key = in_progress; TOOK("ReserveKeys: none -> in_progress")
    :: else -> NOT_LISTED; key = in_progress
    fi
}

inline RetakeKey(key) {
    if
    :: key == failed_retryable -> key = in_progress; TOOK("RetakeKey: failed_retryable -> in_progress")
    :: else -> NOT_LISTED; key = in_progress
    fi
}

inline RenewKey(key) {
    if
    :: key == expired -> key = in_progress; TOOK("RenewKey: expired -> in_progress")
    :: else -> NOT_LISTED; key = in_progress
    fi
}

inline CompleteKeys(key) {
    if
    :: key == in_progress -> key = completed; TOOK("CompleteKeys: in_progress -> completed")
    :: else -> NOT_LISTED; key = completed
    fi
}

inline ResolveKeys(key) {
    if
    :: key == in_progress -> key = completed; TOOK("ResolveKeys: in_progress -> completed")
    :: key == unknown -> key = completed; TOOK("ResolveKeys: unknown -> completed")
    :: key == failed_retryable -> key = completed; TOOK("ResolveKeys: failed_retryable -> completed")
    :: else -> NOT_LISTED; key = completed
    fi
}

inline ReleaseKey(key) {
    if
    :: key == in_progress -> key = failed_retryable; TOOK("ReleaseKey: in_progress -> failed_retryable")
    :: else -> NOT_LISTED; key = failed_retryable
    fi
}

inline LoseKey(key) {
    if
    :: key == in_progress -> key = unknown; TOOK("LoseKey: in_progress -> unknown")
    :: else -> NOT_LISTED; key = unknown
    fi
}

inline ExpireLease(key) {
    if
    :: key == in_progress -> key = unknown; TOOK("ExpireLease: in_progress -> unknown")
    :: else -> NOT_LISTED; key = unknown
    fi
}

inline SweepLeases(key) {
    if
    :: key == in_progress -> key = unknown; TOOK("SweepLeases: in_progress -> unknown")
    :: else -> NOT_LISTED; key = unknown
    fi
}

inline ReleaseUnknownKey(key) {
    if
    :: key == unknown -> key = failed_retryable; TOOK("ReleaseUnknownKey: unknown -> failed_retryable")
    :: else -> NOT_LISTED; key = failed_retryable
    fi
}

inline ExpireKeys(key) {
    if
    :: key == failed_retryable -> key = expired; TOOK("ExpireKeys: failed_retryable -> expired")
    :: key == completed -> key = expired; TOOK("ExpireKeys: completed -> expired")
    :: else -> NOT_LISTED; key = expired
    fi
}

inline DeleteKeys(key) {
    if
    :: key == expired -> key = none; TOOK("DeleteKeys: expired -> none")
    :: else -> NOT_LISTED; key = none
    fi
}
