/*
 * The generations of one key: it expires and is renewed, or is deleted after the audit window and used again. Each generation has a payment
 * of its own, and a key of its own at the PSP. key.pml has the life within one generation; here each part of it is one step, so that what is
 * late can meet what comes after it: an owner, a message, a webhook, a lookup of an older generation.
 *
 * Time is order. What the clock forbids is that an event comes before another one:
 *   the grace period ends after everything that was sent has arrived or is lost; with -DBROKEN_LIMITS, at any time
 *   the PSP's memory ends after the lease of an owner, and the PSP forgets a key after nothing under it is on its way any more
 *   the retention ends after the PSP's memory, and the audit window after the retention
 */

#include "generations_guards.pml"

mtype = { none, in_progress, completed, failed_retryable, unknown, expired, success, declined, not_executed, cancelled };

/* The row of the key, and its tombstone. Payments count from 1. */
mtype status = none;
byte payment = 0;         /* the subject: whose the key is now, or was last */
byte attempt = 0;
byte tombstone = 0;
bool memory_over = false; /* the PSP may have forgotten the key of this generation */
bool dead_letter = false; /* an open dead letter holds this generation */

/* Our rows of the payments. */
byte generation[PAYMENTS + 1] = 0;
mtype result[PAYMENTS + 1] = none;
bool late[PAYMENTS + 1] = false; /* an open dead letter late_after_expiry */

/* The PSP. Its ledger forgets nothing. It forgets a key. */
bool charged[PAYMENTS + 1] = false;
byte charges[PAYMENTS + 1] = 0; /* by generation */
byte known[PAYMENTS + 1] = 0;   /* by the PSP's key: the payment that was charged under it */

/* On its way, by payment: owners that may still send, and messages. */
byte sending[PAYMENTS + 1] = 0;
byte sent[PAYMENTS + 1] = 0;

#include "claims.pml"

inline begin() {
    lease = attempt; mine = payment; sending[mine]++;
    printf("request %d: takes the key as attempt %d of generation %d\n", _pid, attempt, generation[mine])
}

inline renew(last) { /* ReserveKeys, RenewKey: another payment has the key */
    generation[payment + 1] = last + 1; payment++; attempt = 1; memory_over = false; dead_letter = false
}

inline complete() {
    CLAIM(I3_completed_is_final, status != completed);
    CLAIM(I3_success_was_charged, charged[payment]);
    result[payment] = success
}

inline release() {
    CLAIM(released_is_not_charged, !LIMITS_KEPT || !charged[payment])
}

inline follow(m) {
    if
    :: step == completed -> printf("    the key is completed\n"); complete(); ResolveKeys(status)
    :: opens -> late[m] = true; printf("    the key of payment %d is over: dead letter\n", m)
    :: else -> printf("    it is known already\n")
    fi;
    JUDGED
}

active [REQUESTS] proctype request() {
    byte lease = 0, mine = 0;
    mtype got = none;

end:do
    :: atomic {
        if
        :: status == none && payment < LIVES -> renew(TOMBSTONE); ReserveKeys(status)
        :: status == expired && payment < LIVES -> renew(generation[payment]); RenewKey(status)
        :: status == failed_retryable && attempt < ATTEMPTS && MAY_RETAKE -> attempt++; RetakeKey(status)
        fi;
        begin()
       }
       atomic {
        sending[mine]--;
        if
        :: sent[mine]++; printf("owner %d: sends payment %d\n", _pid, mine)
        :: got = not_executed; printf("owner %d: gets no connection\n", _pid); goto write
        :: printf("owner %d: crashes before the send\n", _pid); goto gone
        fi
       }
       atomic {
        if
        :: known[PSP_KEY(mine)] != 0 -> printf("owner %d: is answered that payment %d is charged\n", _pid, known[PSP_KEY(mine)]);
            CLAIM(answer_is_own, known[PSP_KEY(mine)] == mine);
            got = success
        :: got = unknown; printf("owner %d: gives up waiting for the answer\n", _pid)
        :: printf("owner %d: crashes after the send\n", _pid); goto gone
        fi
       }
write: atomic {
        if
        :: printf("owner %d: writes nothing: it crashes, or its guard finds no row\n", _pid)
        :: FENCE -> judge_reply(mine, got);
            if
            :: step == completed -> printf("owner %d: completes the key\n", _pid); complete(); CompleteKeys(status)
            :: step == failed_retryable -> printf("owner %d: releases the key\n", _pid); release(); ReleaseKey(status)
            :: step == unknown -> printf("owner %d: gives the key up as unknown\n", _pid); LoseKey(status)
            fi;
            JUDGED
        :: !FENCE && got == success ->
            printf("owner %d: has lost its lease, brings its success as evidence\n", _pid); judge_late_reply(mine, success); follow(mine)
        fi
       }
gone:  atomic { lease = 0; mine = 0; got = none }
    od
}

active proctype psp() {
    byte i = 0;

end:do
    :: atomic {
        if
        :: sent[1] > 0 -> i = 1
        :: sent[2] > 0 -> i = 2
        :: sent[3] > 0 -> i = 3
        fi;
        sent[i]--;
        if
        :: printf("PSP: never sees a message of payment %d\n", i)
        :: known[PSP_KEY(i)] != 0 -> printf("PSP: knows the key of payment %d\n", i)
        :: known[PSP_KEY(i)] == 0 -> printf("PSP: charges payment %d\n", i);
            charged[i] = true; known[PSP_KEY(i)] = i; charges[generation[i]]++;
            CLAIM_I1(charges[generation[i]] <= 1)
        fi;
        i = 0
       }
    /* The PSP forgets a key. That of the third payment would only repeat what happens to the first one. */
    :: atomic { known[1] != 0 && FORGETTABLE(1) -> known[1] = 0; printf("PSP: forgets the key of generation 1\n") }
    :: atomic { known[2] != 0 && FORGETTABLE(2) -> known[2] = 0; printf("PSP: forgets the key of generation 2\n") }
    od
}

/* A webhook at any time, and the ledger scan for what no webhook has told. What is known already moves nothing. */
#define UNTOLD(m) (charged[m] && result[m] != success && !late[m])
active proctype record() {
end:do
    :: atomic { UNTOLD(1) -> printf("a record: payment 1 is charged\n"); judge_record(1, success); follow(1) }
    :: atomic { UNTOLD(2) -> printf("a record: payment 2 is charged\n"); judge_record(2, success); follow(2) }
    :: atomic { UNTOLD(3) -> printf("a record: payment 3 is charged\n"); judge_record(3, success); follow(3) }
    od
}

/* Looks up an unknown key after the grace period, and writes what that proves. */
active proctype poller() {
    byte seen = 0, tried = 0;
    bool asked_late = false; /* the PSP may have forgotten the key when it was asked */
    mtype found = none;

end:do
    :: atomic {
        status == unknown && !dead_letter && GRACE_ENDS ->
        seen = payment; tried = attempt; asked_late = memory_over;
        if
        :: known[PSP_KEY(seen)] == seen -> found = success; printf("poller: asks, payment %d is charged\n", seen)
        :: else -> found = not_executed; printf("poller: asks, the PSP has nothing of payment %d\n", seen)
        fi
       }
       atomic {
        if
        :: status == unknown && SEEN && found == success -> judge_record(seen, success); follow(seen)
        :: status == unknown && SEEN && found == not_executed -> judge_nothing(seen, not_executed);
            if
            :: step == failed_retryable -> printf("poller: releases the key\n"); release(); ReleaseUnknownKey(status)
            :: opens -> dead_letter = true; printf("poller: the PSP may have forgotten the key: dead letter\n")
            :: else
            fi;
            JUDGED
        :: else
        fi;
        seen = 0; tried = 0; asked_late = false; found = none
       }
    od
}

/* Finds out at the PSP what no program can, or leaves the dead letter open. */
active proctype operator() {
end:do
    :: atomic {
        dead_letter && status == unknown && GRACE_ENDS ->
        if
        :: charged[payment] -> printf("operator: executed\n"); complete(); ResolveKeys(status)
        :: else -> printf("operator: not executed\n"); release(); ReleaseUnknownKey(status)
        fi;
        dead_letter = false
       }
    od
}

/* What happens because time passes. */
active proctype time() {
end:do
    :: atomic { status == in_progress -> printf("sweeper: the lease is over, the key is unknown\n"); SweepLeases(status) }
    :: atomic { payment > 0 && !memory_over && status != in_progress && sending[payment] == 0 ->
        memory_over = true; printf("time: the PSP may have forgotten payment %d\n", payment) }
    :: atomic { (status == completed || status == failed_retryable) && RETENTION_OVER && !dead_letter ->
        tombstone = generation[payment]; ExpireKeys(status); printf("pruner: the key expires\n") }
    :: atomic { status == expired && !late[1] && !late[2] && !late[3] -> DeleteKeys(status); printf("pruner: the key is deleted\n") }
    od
}

#define BOOKED(m) (late[m] || charged[m] == (result[m] == success))
active proctype rest() {
    timeout ->
    atomic {
        printf("all is quiet: the key is %e, of payment %d\n", status, payment);
        CLAIM(I2_nothing_left_open, (status != in_progress && status != unknown) || dead_letter);
        CLAIM(I4_books_equal_ledger, dead_letter || (BOOKED(1) && BOOKED(2) && BOOKED(3)))
    }
}
