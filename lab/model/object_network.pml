/* What arrives later: requests that got no answer, and webhooks. Part of object.pml. */

active proctype webhook() {
end:do
    :: atomic { hook != none -> printf("webhook: says %e\n", hook); judge_record(0, hook); follow(hook); hook = none }
    od
}

active proctype network() {
    byte i = 0, id = 0;

end:do
    :: atomic { confirming[1] != 0 || confirming[2] != 0 ->
        if :: confirming[1] != 0 -> i = 1 :: confirming[2] != 0 -> i = 2 fi;
        id = confirming[i]; confirming[i] = 0;
        if
        :: printf("PSP: a late confirmation arrives\n"); execute(id, i)
        :: true
        fi;
        i = 0; id = 0
       }
    :: atomic { cancelling[1] || cancelling[2] || cancelling[3] ->
        if :: cancelling[1] -> i = 1 :: cancelling[2] -> i = 2 :: cancelling[3] -> i = 3 fi;
        cancelling[i] = false;
        if
        :: printf("PSP: a late cancellation arrives\n"); cancel(i)
        :: true
        fi;
        i = 0
       }
    od
}
