package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestDemoWithAnUnknownBugListsThem(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "which bug?", "no-such-bug": `"no-such-bug" is no bug`, "no-fence no-ledger-scan": "one bug at a time",
	} {
		var out bytes.Buffer
		err := demo(t.Context(), strings.Fields(args), &out)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
		if list := "  no-fence   "; len(strings.Fields(args)) < 2 && !strings.Contains(out.String(), list) {
			t.Errorf("%q: the list lacks %q:\n%s", args, list, &out)
		}
	}
}

// The prose of a bug is for people, and may have quotes. The go command splits its flags by them.
func TestDemoSaysEachBug(t *testing.T) {
	t.Parallel()
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(bugs, bug{name: "quoted", what: `the first one's "answer"`}) {
		flag := planted(b)
		inner, quoted := strings.CutPrefix(flag, `-X "payonce/demo/supervisor.planted=`+b.name+": ")
		if !quoted || strings.Index(inner, `"`) != len(inner)-1 {
			t.Errorf("%s: the go command cannot take %s", b.name, flag)
		}
	}
}
