/*
 * The life of one key, in one generation, at a PSP that makes an object first and executes it later (Stripe's PaymentIntent).
 *
 * The owner creates an object under a create key of its attempt, remembers the object's id in the payment's row, and only then confirms it.
 * An object that is not confirmed moves no money. The PSP executes an object at most once, and a cancelled object never. So a resolver that has
 * cancelled the object knows that nothing will be executed, and releases the key at once.
 *
 * Nothing here waits for time: there is no clock, no grace period and no limit. The sweeper may end a lease at any moment, and a request that got
 * no answer may arrive at any later time. As in key.pml, an atomic block is one statement of the database, or one thing that the world does, and
 * between two of them anything else may happen.
 *
 * Left out, because key.pml has it or the design does not need it: the ledger scan, the check of the pause before the send, webhooks that come
 * twice, and a PSP that waits for a bank or the customer (it answers a lookup with "later").
 *
 * object_guards.pml has the guards of the design, which can be taken away. object_psp.pml is the PSP, object_network.pml what arrives later.
 */

#include "object_guards.pml"

mtype = { none, in_progress, completed, failed_retryable, unknown, expired, /* statuses; none also where there is no answer */
          success, declined, not_executed,                        /* outcomes; unknown is one, too */
          unsent, cancelled, refused };                           /* an object; success and declined are states of one, too */

/* The rows of the key and the payment. */
mtype status = none;
mtype result = none;      /* the stored response */
byte attempt = 0;
byte object = 0;          /* the object that the current attempt remembers, or 0 */
bool dead_letter = false; /* an open dead letter about the key */

byte begun = 0; /* requests that have come; they are alike, so they come in order */

#include "claims.pml"
#include "object_psp.pml"

/* What else is written when the key moves, and what must hold then, as in key.pml. */

inline take(i) {
    printf("request %d: takes the key as attempt %d\n", i, attempt + 1);
    CLAIM(I6_attempts_never_overlap, !(EXECUTABLE(1) || EXECUTABLE(2)));
    CLAIM(I3_completed_is_final, status != completed);
    attempt++; lease = attempt; object = 0
}

inline complete(v) {
    CLAIM(I3_completed_is_final, status != completed || result == v);
    CLAIM(I3_success_was_charged, v != success || charges > 0);
    result = v; dead_letter = false
}

inline release() {
    CLAIM(I3_completed_is_final, status != completed);
    CLAIM(released_is_not_charged, charges == 0);
    released = attempt
}

inline lose() {
    CLAIM(I3_completed_is_final, status != completed)
}

inline follow(v) {
    if
    :: step == completed -> printf("    the key is completed: %e\n", v); complete(v); ResolveKeys(status)
    :: opens -> dead_letter = true; printf("    contradicts what was answered: dead letter\n")
    :: else -> printf("    it is known already\n")
    fi;
    JUDGED
}

/* A request, and if it wins the key, the owner of an attempt. It may crash at each step. */
active [REQUESTS] proctype request() {
    byte lease = 0, id = 0;
    mtype got = none;

end_unused:
    atomic {
        begun == _pid ->
        if
        :: begun++
        :: begun = REQUESTS + 1; goto gone /* the client asks no more */
        fi;
        if
        :: status == none -> take(_pid); ReserveKeys(status)
        :: status == failed_retryable -> take(_pid); RetakeKey(status)
        :: else -> printf("request %d: is answered from the row, %e\n", _pid, status); goto gone
        fi
    }
    atomic { /* reserved, no object: crash window 2 */
        if
        :: create(lease, id); printf("owner %d: has object %d made: %e\n", _pid, id, state[id]);
            CLAIM(attempt_can_execute, !OWNS || state[id] != cancelled);
            if
            :: state[id] == refused -> got = declined; goto write /* for what was asked */
            :: state[id] == refused -> got = not_executed; goto write
            :: else
            fi
        :: create(lease, id); got = not_executed; printf("owner %d: has object %d made, and gets no answer\n", _pid, id); goto write
        :: got = not_executed; printf("owner %d: has no object made\n", _pid); goto write
        :: printf("owner %d: crashes before the creation\n", _pid); goto gone
        fi;
#ifdef NOT_REMEMBERED
        goto confirm
#endif
    }
    atomic { /* made, not remembered: crash window 27 */
        if
        :: MAY_REMEMBER -> object = id; printf("owner %d: remembers object %d\n", _pid, id)
        :: MAY_REMEMBER -> object = id; got = not_executed; /* the acknowledgement is lost */
            printf("owner %d: remembers object %d, and is not told\n", _pid, id); goto write
        :: got = not_executed; printf("owner %d: may not remember object %d, or the database is away\n", _pid, id); goto write
        :: printf("owner %d: crashes before it remembers\n", _pid); goto gone
        fi
    }
confirm:
    atomic { /* remembered, not confirmed: crash window 28 */
        if
        :: printf("owner %d: confirms object %d\n", _pid, id); execute(id, lease); got = state[id]; goto write
        :: printf("owner %d: confirms object %d, and gets no answer\n", _pid, id); confirming[lease] = id
        :: got = not_executed; printf("owner %d: was paused, or gets no connection\n", _pid); goto write
        :: printf("owner %d: crashes before it confirms\n", _pid); goto gone
        fi
    }
    atomic { /* confirmed, no verdict: crash window 3 */
        if
        :: got = state[id]; printf("owner %d: reads object %d: %e\n", _pid, id, got)
        :: got = unknown; printf("owner %d: reads, and gets no answer\n", _pid)
        :: printf("owner %d: crashes after it has confirmed\n", _pid); goto gone
        fi;
        if
        :: got != unsent || UNSENT_IS_PROOF -> goto write
        :: else
        fi
    }
    atomic {
        if
        :: cancel(id); got = state[id]; printf("owner %d: cancels object %d: %e\n", _pid, id, got)
        :: got = unknown; cancelling[id] = true; printf("owner %d: cancels object %d, and gets no answer\n", _pid, id)
        :: printf("owner %d: crashes before it cancels\n", _pid); goto gone
        fi
    }
write:
    atomic {
        if
        :: printf("owner %d: writes nothing: it crashes, or its guard finds no row\n", _pid)
        :: OWNS && (got == success || got == declined || got == unknown || NOTHING_EXECUTED(got)) ->
            if
            :: NOTHING_EXECUTED(got) -> judge_reply(0, not_executed)
            :: else -> judge_reply(0, got)
            fi;
            if
            :: step == completed -> printf("owner %d: completes the key: %e\n", _pid, got); complete(got); CompleteKeys(status)
            :: step == failed_retryable -> printf("owner %d: releases the key\n", _pid); release(); ReleaseKey(status)
            :: step == unknown -> printf("owner %d: gives the key up as unknown\n", _pid); lose(); LoseKey(status)
            fi;
            JUDGED
        :: !OWNS && got == success ->
            printf("owner %d: has lost its lease, brings its success as evidence\n", _pid); judge_late_reply(0, success); follow(success)
        fi
    }
gone:
    atomic { lease = 0; id = 0; got = none }
}

active proctype sweeper() {
end:do
    :: atomic { status == in_progress -> printf("sweeper: the lease is over, the key is unknown\n"); lose(); SweepLeases(status) }
    od
}

/* A resolver asks the PSP about an unknown key, cancels what is not executed, and writes what that proves. It may crash or get no answer at each
 * step. Once it just asks again; after that it opens a dead letter. While that is open, it asks only when there is something to learn, and
 * releases nothing. */
active [RESOLVERS] proctype resolver() {
    byte seen = 0, id = 0;
    bool repeated = false;
    mtype found = none;

end:do
    :: atomic { status == unknown && (!dead_letter || state[object] == success || state[object] == declined) -> seen = attempt }
       atomic { /* the payment's row is read after the key's row, and may be newer */
        id = object;
        if
        :: SEARCHES -> printf("resolver: searches, and finds nothing yet\n"); found = not_executed; goto write
        :: id != 0 -> printf("resolver: the row remembers object %d\n", id); goto read
        :: id == 0 -> printf("resolver: the row remembers no object\n")
        fi
       }
       atomic {
        if
        :: create(seen, id); printf("resolver: creates under the key of attempt %d: object %d, %e\n", seen, id, state[id])
        :: MAY_FAIL -> create(seen, id); printf("resolver: creates object %d, and gets no answer\n", id); goto lost
        fi
       }
read:  atomic {
        if
        :: found = state[id]; printf("resolver: reads object %d: %e\n", id, found)
        :: MAY_FAIL -> goto lost
        fi;
        if
        :: found != unsent || UNSENT_IS_PROOF -> goto write
        :: else
        fi
       }
       atomic {
        if
        :: cancel(id); found = state[id]; printf("resolver: cancels object %d: %e\n", id, found)
        :: MAY_FAIL -> cancelling[id] = true; goto lost
        fi
       }
write: atomic {
        if
        :: MAY_FAIL -> printf("resolver: crashes before it writes\n"); goto lost
        :: status == unknown && attempt == seen && (found == success || found == declined) -> judge_record(0, found); follow(found)
        :: status == unknown && attempt == seen && NOTHING_EXECUTED(found) -> judge_nothing(0, cancelled);
            if
            :: step == failed_retryable -> printf("resolver: releases the key\n"); release(); ReleaseUnknownKey(status)
            :: else
            fi;
            JUDGED
        :: else
        fi;
        goto done
       }
lost:  atomic {
        if
        :: !repeated -> repeated = true; printf("resolver: crashes, or gets no answer; will ask again\n")
        :: status == unknown && attempt == seen && !dead_letter -> dead_letter = true; printf("resolver: gets no answer: dead letter\n")
        :: else
        fi
       }
done:  atomic { seen = 0; id = 0; found = none }
    od
}

/* Has one dead letter looked up again, or leaves it open for good. */
active proctype operator() {
end:
    atomic {
        dead_letter && status == unknown ->
        if
        :: dead_letter = false; printf("operator: look again\n")
        :: true
        fi
    }
}

#include "object_network.pml"

/* When nothing can happen any more. That it comes to this, always, is what pan -l says of the same model. */
active proctype rest() {
    timeout ->
    atomic {
        printf("all is quiet: the key is %e, charged %d times\n", status, charges);
        CLAIM(I2_nothing_left_open, status == none || status == completed || status == failed_retryable || dead_letter);
        CLAIM(I4_books_equal_ledger, dead_letter || (charges == 0 && result != success) || (charges == 1 && result == success))
    }
}
