/*
 * What evidence v does to the key of a payment or refund m. This is package internal/judge, asked for every state that a model
 * knows: go test ./internal/judge -run TestModels -update writes it. step is the key's next status, and none if it stays;
 * opens says that a dead letter is opened. Each model says in its guards what STATUS, OURS, RESULT and the others are.
 */

inline judge_reply(m, v) { /* the request's own reply, while the key waits for it */
    step = none; opens = false;
    if
    :: v == success -> step = completed
    :: v == declined -> step = completed
    :: v == not_executed && HELD(m) -> step = unknown
    :: v == not_executed && !HELD(m) -> step = failed_retryable
    :: v == unknown -> step = unknown
    :: else
    fi
}

inline judge_late_reply(m, v) { /* the request's own reply, when others have acted on its key */
    step = none; opens = false;
    if
    :: v == success && OURS(m) && STATUS(m) == unknown && SAME_ATTEMPT -> step = completed
    :: v == success && OURS(m) && STATUS(m) == failed_retryable && SHARE_GONE(m) -> opens = true
    :: v == success && OURS(m) && STATUS(m) == failed_retryable && !SHARE_GONE(m) -> step = completed
    :: v == success && OURS(m) && STATUS(m) == completed && RESULT(m) == declined -> opens = true
    :: v == success && !OURS(m) && (RESULT(m) == none || RESULT(m) == declined) -> opens = true
    :: else
    fi
}

inline judge_record(m, v) { /* a record, by webhook, lookup, scan, or an operator's retry */
    step = none; opens = false;
    if
    :: v == success && OURS(m) && (STATUS(m) == in_progress || STATUS(m) == unknown) -> step = completed
    :: v == success && OURS(m) && STATUS(m) == failed_retryable && SHARE_GONE(m) -> opens = true
    :: v == success && OURS(m) && STATUS(m) == failed_retryable && !SHARE_GONE(m) -> step = completed
    :: v == success && OURS(m) && STATUS(m) == completed && RESULT(m) == declined -> opens = true
    :: v == success && !OURS(m) && (RESULT(m) == none || RESULT(m) == declined) -> opens = true
    :: v == declined && OURS(m) && (STATUS(m) == in_progress || STATUS(m) == unknown || STATUS(m) == failed_retryable) -> step = completed
    :: v == declined && OURS(m) && STATUS(m) == completed && RESULT(m) == success -> opens = true
    :: v == declined && !OURS(m) && RESULT(m) == success -> opens = true
    :: else
    fi
}

inline judge_nothing(m, v) { /* a lookup that finds nothing, or a PSP that has ended the request */
    step = none; opens = false;
    if
    :: v == not_executed && !HELD(m) && GRACE_OVER && MEMORY_OVER -> opens = true
    :: v == not_executed && !HELD(m) && GRACE_OVER && !MEMORY_OVER -> step = failed_retryable
    :: v == cancelled && !HELD(m) -> step = failed_retryable
    :: else
    fi
}
