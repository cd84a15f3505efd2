package operator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/deadletters"
)

func TestDecisionIsHeldToItsForm(t *testing.T) {
	t.Parallel()
	good := Decision{PSPID: "ch_1", Decision: deadletters.Decision{Version: 1, Action: deadletters.Executed,
		Reason: "called the PSP"}}
	for name, row := range map[string]struct {
		change func(*Decision)
		want   []string
	}{
		"nothing is wrong":      {func(*Decision) {}, nil},
		"without an id":         {func(d *Decision) { d.PSPID = "" }, nil},
		"retry":                 {func(d *Decision) { d.Action, d.PSPID = deadletters.Retry, "" }, nil},
		"not executed":          {func(d *Decision) { d.Action, d.PSPID = deadletters.NotExecuted, "" }, nil},
		"dismiss":               {func(d *Decision) { d.Action, d.PSPID = deadletters.Dismiss, "" }, nil},
		"500 characters":        {func(d *Decision) { d.Reason = strings.Repeat("é", 500) }, nil},
		"two lines":             {func(d *Decision) { d.Reason = "a\n\tb" }, nil},
		"no action":             {func(d *Decision) { d.Action, d.PSPID = "", "" }, []string{"/action"}},
		"another action":        {func(d *Decision) { d.Action, d.PSPID = "Retry", "" }, []string{"/action"}},
		"no reason":             {func(d *Decision) { d.Reason = "" }, []string{"/reason"}},
		"blank reason":          {func(d *Decision) { d.Reason = " \n " }, []string{"/reason"}},
		"501 characters":        {func(d *Decision) { d.Reason = strings.Repeat("é", 501) }, []string{"/reason"}},
		"control character":     {func(d *Decision) { d.Reason = "a\x00" }, []string{"/reason"}},
		"no UTF-8":              {func(d *Decision) { d.Reason = "a\xff" }, []string{"/reason"}},
		"card number":           {func(d *Decision) { d.Reason = "paid by 4242424242424242" }, []string{"/reason"}},
		"no version":            {func(d *Decision) { d.Version = 0 }, []string{"/version"}},
		"id with a space":       {func(d *Decision) { d.PSPID = "ch 1" }, []string{"/pspId"}},
		"long id":               {func(d *Decision) { d.PSPID = strings.Repeat("a", 256) }, []string{"/pspId"}},
		"card number for an id": {func(d *Decision) { d.PSPID = "4242424242424242" }, []string{"/pspId"}},
		"id of our own":         {func(d *Decision) { d.PSPID = "operator:ch_1" }, []string{"/pspId"}},
		"id with another action": {
			func(d *Decision) { d.Action = deadletters.Dismiss }, []string{"/pspId"},
		},
		"everything": {func(d *Decision) { *d = Decision{} }, []string{"/action", "/reason", "/version"}},
	} {
		d := good
		row.change(&d)
		var got []string
		for _, i := range d.Validate() {
			got = append(got, *i.Pointer)
			if i.Detail == "" || strings.Contains(i.Detail, "4242") {
				t.Errorf("%s: detail is %q", name, i.Detail)
			}
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
