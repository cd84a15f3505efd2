package program

import (
	"bytes"
	"strings"
	"testing"
)

type sample struct {
	Name string `env:"NAME" envDefault:"none" desc:"a name"`
	N    int    `env:"N" desc:"a number"`
}

func TestSettingsAreReadByTheirTags(t *testing.T) {
	t.Parallel()
	given := map[string]string{"N": "3", "NAME": ""}
	s, err := Settings[sample]("lab", func(name string) string { return given[name] })
	if err != nil || s != (sample{"none", 3}) {
		t.Errorf("%+v, %v", s, err)
	}
	given["N"] = "three"
	if _, err := Settings[sample]("lab", func(name string) string { return given[name] }); err == nil ||
		!strings.Contains(err.Error(), "lab --help") {
		t.Errorf("a wrong number: %v", err)
	}
}

func TestOtherArgumentsThanTheKnownOnesAreRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct{ asked, fails bool }{
		"": {}, "list": {}, "--help": {asked: true}, "help": {asked: true}, "lits": {fails: true},
	} {
		var out bytes.Buffer
		asked, err := Help(&out, "lab", "Usage\n", sample{}, strings.Fields(args), "list")
		if asked != want.asked || (err != nil) != want.fails || asked && !strings.Contains(out.String(), "a number") {
			t.Errorf("%q: asked %t, %v, %s", args, asked, err, &out)
		}
	}
}
