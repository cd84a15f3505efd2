package main

import "testing"

func TestWhatNoWebhookHasToldOfIsKnownOtherwise(t *testing.T) {
	t.Parallel()
	told := toldBy(`{"entryId":"rf_1","end":"dropped"}
{"entryId":"rf_2","end":"dropped"}
{"entryId":"rf_3","end":"delivered"}
{"entryId":"rf_2","end":"delivered"}
{"entryId":"rf_3","end":"dropped"}
{"entryId":"rf_`)
	for id, want := range map[string]string{"rf_1": "never by webhook", "rf_2": "by webhook", "rf_3": "by webhook"} {
		if told[id] != want {
			t.Errorf("%s: %q, want %q", id, told[id], want)
		}
	}
}
