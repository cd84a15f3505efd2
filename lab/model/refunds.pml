/*
 * Two refunds of one payment at once. Each is a movement with a key of its own, and lives as a payment does (key.pml); what is new is that both
 * share what was charged. A refund takes its share before it is sent, keeps it while nobody knows whether it was executed, and gives it back when
 * it is proven that it was not. To write a refund's row and to add up all rows is one step, under the lock of the payment's row: the function
 * payments_guard refuses more than was charged, and with it the whole step.
 *
 * With -DBROKEN_LIMITS, a refund that was released may be executed after all, when another one has its share. Then a dead letter has to say so.
 */

#include "refunds_guards.pml"

mtype = { none, in_progress, completed, failed_retryable, unknown, expired, success, declined, not_executed, cancelled };

/* By refund: the rows of its key and its own. */
mtype status[REFUNDS] = none;
mtype result[REFUNDS] = none;
byte attempt[REFUNDS] = 0;
byte amount[REFUNDS] = 0;
bool share[REFUNDS] = false;  /* its row is processing or succeeded */
bool exceeds[REFUNDS] = false; /* an open dead letter refund_exceeds_payment */

/* By refund: owners that may still send, and messages. */
byte sending[REFUNDS] = 0;
byte sent[REFUNDS] = 0;

/* The PSP. It would refuse more than was charged; here it does not, so that we must. */
mtype verdict[REFUNDS] = none;
byte times[REFUNDS] = 0;
byte returned = 0;

#include "claims.pml"

inline complete(i, v) {
    CLAIM(I3_completed_is_final, status[i] != completed);
    CLAIM(I3_success_was_charged, v != success || verdict[i] == success);
    result[i] = v; share[i] = (v == success);
    /* payments_guard */
    CLAIM(refunds_within_payment, HELD_SHARES <= CHARGED)
}

inline release(i) {
    CLAIM(released_is_not_charged, !LIMITS_KEPT || verdict[i] != success);
    share[i] = false
}

inline follow(i, v) {
    if
    :: step == completed -> printf("    refund %d is completed: %e\n", i, v); complete(i, v); ResolveKeys(status[i])
    :: opens -> exceeds[i] = true; printf("    refund %d exceeds the payment: dead letter\n", i)
    :: else -> printf("    it is known already\n")
    fi;
    JUDGED
}

inline lost(i) {
#ifdef LOST_GIVES_BACK
    share[i] = false
#else
    skip
#endif
}

/* Process i is the client of refund i, and the owner of each attempt. What is left of an earlier owner is in sending and sent. */
active [REFUNDS] proctype request() {
    byte lease = 0;
    bool fits = false;
    mtype got = none;

end:do
    :: atomic { (status[_pid] == none || status[_pid] == failed_retryable) && attempt[_pid] < ATTEMPTS ->
        if /* how much is asked for */
        :: amount[_pid] == 0 -> amount[_pid] = 1
        :: amount[_pid] == 0 -> amount[_pid] = 2
        :: else
        fi;
        fits = (HELD_SHARES + amount[_pid] <= CHARGED)
       }
#ifndef NO_LOCK
       atomic { fits = (HELD_SHARES + amount[_pid] <= CHARGED); /* read again, under the lock */
#else
       atomic {
#endif
        if
        :: !fits -> printf("request %d: %d are more than is left\n", _pid, amount[_pid]); goto stop /* refund_exceeds_payment */
        :: fits && status[_pid] == none -> ReserveKeys(status[_pid])
        :: fits && status[_pid] == failed_retryable -> RetakeKey(status[_pid])
        :: else -> goto again /* evidence was faster */
        fi;
        share[_pid] = true; attempt[_pid]++; lease = attempt[_pid]; sending[_pid]++;
        printf("request %d: takes the key as attempt %d, refunds %d\n", _pid, lease, amount[_pid]);
        CLAIM(refunds_within_payment, HELD_SHARES <= CHARGED)
       }
       atomic {
        sending[_pid]--;
        if
        :: sent[_pid]++; printf("owner %d: sends the refund\n", _pid)
        :: got = not_executed; printf("owner %d: gets no connection\n", _pid); goto write
        :: printf("owner %d: crashes before the send\n", _pid); goto again
        fi
       }
       atomic {
        if
        :: verdict[_pid] != none -> got = verdict[_pid]; printf("owner %d: is answered %e\n", _pid, got)
        :: got = unknown; printf("owner %d: gives up waiting for the answer\n", _pid)
        :: printf("owner %d: crashes after the send\n", _pid); goto again
        fi
       }
write: atomic {
        if
        :: printf("owner %d: writes nothing: it crashes, or its guard finds no row\n", _pid)
        :: FENCE -> judge_reply(_pid, got);
            if
            :: step == completed -> printf("owner %d: completes the key: %e\n", _pid, got); complete(_pid, got); CompleteKeys(status[_pid])
            :: step == failed_retryable -> printf("owner %d: releases the key\n", _pid); release(_pid); ReleaseKey(status[_pid])
            :: step == unknown -> printf("owner %d: gives the key up as unknown\n", _pid); lost(_pid); LoseKey(status[_pid])
            fi;
            JUDGED
        :: !FENCE && got == success ->
            printf("owner %d: has lost its lease, brings its success as evidence\n", _pid); judge_late_reply(_pid, success); follow(_pid, success)
        fi
       }
again: atomic { lease = 0; fits = false; got = none }
    od;
stop: atomic { lease = 0; fits = false; got = none }
}

/* Executes a refund once for its key, or loses it. */
active proctype psp() {
    byte i = 0;

end:do
    :: atomic {
        if
        :: sent[0] > 0 -> i = 0
        :: sent[1] > 0 -> i = 1
        fi;
        sent[i]--;
        if
        :: printf("PSP: never sees a message of refund %d\n", i)
        :: REMEMBERED(i) -> printf("PSP: knows the key of refund %d\n", i)
        :: !REMEMBERED(i) -> verdict[i] = success; times[i]++; returned = returned + amount[i];
            printf("PSP: returns %d for refund %d\n", amount[i], i);
            CLAIM_I1(times[i] <= 1);
            CLAIM(refunds_within_payment, !LIMITS_KEPT || returned <= CHARGED)
        :: !REMEMBERED(i) -> verdict[i] = declined; printf("PSP: declines refund %d\n", i)
        fi;
        i = 0
       }
    od
}

/* A webhook at any time, and the ledger scan for what no webhook has told. */
#define UNTOLD(i) (verdict[i] != none && result[i] != verdict[i] && !exceeds[i])
active proctype record() {
end:do
    :: atomic { UNTOLD(0) -> printf("a record: refund 0, %e\n", verdict[0]); judge_record(0, verdict[0]); follow(0, verdict[0]) }
    :: atomic { UNTOLD(1) -> printf("a record: refund 1, %e\n", verdict[1]); judge_record(1, verdict[1]); follow(1, verdict[1]) }
    od
}

/* Looks up an unknown refund after the grace period. To ask and to write are two steps in key.pml; what has been asked too early is not proof
 * there either, so here they are one. */
active proctype poller() {
    byte i = 0;

end:do
    :: atomic {
        if
        :: status[0] == unknown && GRACE_ENDS(0) -> i = 0
        :: status[1] == unknown && GRACE_ENDS(1) -> i = 1
        fi;
        if
        :: verdict[i] != none -> printf("poller: asks about refund %d, %e\n", i, verdict[i]); judge_record(i, verdict[i]); follow(i, verdict[i])
        :: else -> judge_nothing(i, not_executed);
            if
            :: step == failed_retryable -> printf("poller: releases refund %d\n", i); release(i); ReleaseUnknownKey(status[i])
            :: else
            fi;
            JUDGED
        fi;
        i = 0
       }
    od
}

active proctype sweeper() {
end:do
    :: atomic { status[0] == in_progress -> printf("sweeper: the lease of refund 0 is over\n"); lost(0); SweepLeases(status[0]) }
    :: atomic { status[1] == in_progress -> printf("sweeper: the lease of refund 1 is over\n"); lost(1); SweepLeases(status[1]) }
    od
}

#define OPEN(i)   (status[i] == in_progress || status[i] == unknown)
#define BOOKED(i) (exceeds[i] || verdict[i] == result[i])
active proctype rest() {
    timeout ->
    atomic {
        printf("all is quiet: %d are returned\n", returned);
        CLAIM(I2_nothing_left_open, !OPEN(0) && !OPEN(1));
        CLAIM(I4_books_equal_ledger, BOOKED(0) && BOOKED(1) && (returned <= CHARGED || exceeds[0] || exceeds[1]))
    }
}
