package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestExitCodeSaysWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	failure := errors.New("no database")
	for name, c := range map[string]struct {
		err     error
		stopped bool
		code    int
		says    string
	}{
		"done":                   {nil, false, 0, ""},
		"done, then interrupted": {nil, true, 0, ""},
		"failed":                 {failure, false, 1, "api: no database\n"},
		"usage":                  {Usagef("flag %q", "x"), false, 2, "api: flag \"x\"\n"},
		"usage, wrapped": {fmt.Errorf("keys: %w", Usagef("flag %w", failure)), false, 2,
			"api: keys: flag no database\n"},
		"its own code":             {WithCode(7, failure), false, 7, "api: no database\n"},
		"interrupted":              {fmt.Errorf("read: %w", context.Canceled), true, 130, "api: interrupted\n"},
		"called off by itself":     {context.Canceled, false, 1, "api: context canceled\n"},
		"failed while interrupted": {failure, true, 1, "api: no database\n"},
	} {
		var stderr bytes.Buffer
		if code := report(&stderr, "api", c.err, c.stopped); code != c.code || stderr.String() != c.says {
			t.Errorf("%s: exit code %d, %q", name, code, stderr.String())
		}
	}
	if WithCode(2, nil) != nil || Code(nil) != 0 {
		t.Error("no error has become one")
	}
	if !errors.Is(WithCode(2, failure), failure) {
		t.Error("the cause is gone")
	}
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"--n 3 a b", "a --n 3 b", "a b --n=3"} {
		flags := NewFlags("api keys")
		n := flags.Int("n", 0, "")
		if err := Parse(flags, strings.Fields(line), 2); err != nil || *n != 3 ||
			strings.Join(flags.Args(), " ") != "a b" {
			t.Errorf("%s: %v, n is %d, arguments %q", line, err, *n, flags.Args())
		}
	}
	for line, want := range map[string]string{
		"--m":   "flag provided but not defined: -m; see api keys --help",
		"--n":   "flag needs an argument: -n; see api keys --help",
		"--n x": "invalid value", "a b c": `argument "c" is not known; see api keys --help`,
	} {
		flags := NewFlags("api keys")
		flags.Int("n", 0, "")
		if err := Parse(flags, strings.Fields(line), 2); Code(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit code %d, %v", line, Code(err), err)
		}
	}
}

func TestHelpOfACommandWithoutArguments(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-h", "-help", "--help"} {
		var out bytes.Buffer
		if asked, err := Help(&out, "text", "api serve", []string{"x", arg}); !asked || err != nil ||
			out.String() != "text" {
			t.Errorf("%s: %v, %v, %q", arg, asked, err, out.String())
		}
	}
	if asked, err := Help(io.Discard, "text", "api serve", nil); asked || err != nil {
		t.Errorf("nothing was asked: %v, %v", asked, err)
	}
	if asked, err := Help(io.Discard, "text", "api serve", []string{"now"}); asked || Code(err) != 2 {
		t.Errorf("an argument: %v, %v", asked, err)
	}
}

func TestVersionTellsWhatTheBuildKnows(t *testing.T) {
	t.Parallel()
	settings := func(pairs ...string) (all []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return all
	}
	for want, build := range map[string]*debug.BuildInfo{
		"api devel, go unknown": nil,
		"api devel, go1.26.8":   {GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}},
		"api v1.2.3, go1.26.8":  {GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}},
		"api devel, revision 0123456789ab, go1.26.8": {GoVersion: "go1.26.8",
			Settings: settings("vcs.revision", "0123456789abcdef", "vcs.modified", "false")},
		"api devel, revision 0123 with changes, go1.26.8": {GoVersion: "go1.26.8",
			Settings: settings("vcs.revision", "0123", "vcs.modified", "true")},
	} {
		if got := versionLine("api", build); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var out bytes.Buffer
	if err := PrintVersion(&out, "api"); err != nil || !strings.HasPrefix(out.String(), "api ") ||
		!strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%v, %q", err, out.String())
	}
}

// The arguments of a command line are separated by line ends here. Flags mean the same wherever they stand, and there
// are as many arguments as were asked for: none is lost, none appears.
func FuzzParse(f *testing.F) {
	f.Add("0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44\n--action=retry\n--version\n3", 1)
	f.Add("--reason\n--\n--\n--json\nx", 2)
	f.Add("--version=4294967297", 0)
	f.Fuzz(func(t *testing.T, line string, wanted int) {
		wanted &= 3
		parsed := func(args []string) (arguments []string, said [4]string, err error) {
			flags := NewFlags("reconciler x")
			action, reason := flags.String("action", "", ""), flags.String("reason", "", "")
			flags.Int("version", 0, "")
			flags.Bool("json", false, "")
			err = Parse(flags, args, wanted)
			return flags.Args(), [4]string{*action, *reason, flags.Lookup("version").Value.String(),
				flags.Lookup("json").Value.String()}, err
		}
		arguments, said, err := parsed(strings.Split(line, "\n"))
		if err != nil {
			if Code(err) != misused || !strings.HasSuffix(err.Error(), "; see reconciler x --help") {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if len(arguments) > wanted {
			t.Fatalf("%q has %d arguments, of %d", line, len(arguments), wanted)
		}
		// Behind "--", an argument that looks like a flag is still one argument; the next one is not.
		if slices.ContainsFunc(arguments, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
			return
		}
		again := append([]string{"-action=" + said[0], "-reason=" + said[1], "-version=" + said[2], "-json=" + said[3],
			"--"}, arguments...)
		second, saidAgain, err := parsed(again)
		if err != nil || saidAgain != said || !slices.Equal(second, arguments) {
			t.Fatalf("%q is %q %q, and written once more %q %q, %v", line, said, arguments, saidAgain, second, err)
		}
	})
}

func TestCommandForAPersonLogsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"": "warn", "info": "info"} {
		if level := Quiet(func(string) string { return set })("LOG_LEVEL"); level != want {
			t.Errorf("LOG_LEVEL=%s becomes %s", set, level)
		}
	}
}
