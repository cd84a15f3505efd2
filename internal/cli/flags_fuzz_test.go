package cli

import (
	"slices"
	"strings"
	"testing"
)

// The arguments of a command line are separated by line ends here. Flags mean the same wherever they stand, and there
// are as many arguments as were asked for: none is lost, none appears.
func FuzzParse(f *testing.F) {
	f.Add("0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44\n--action=retry\n--version\n3", 1)
	f.Add("--reason\n--\n--\n--json\nx", 2)
	f.Add("--version=4294967297", 0)
	f.Fuzz(func(t *testing.T, line string, wanted int) {
		wanted &= 3
		parsed := func(args []string) (arguments []string, said [4]string, err error) {
			flags := NewFlags("reconciler dlq")
			action, reason := flags.String("action", "", ""), flags.String("reason", "", "")
			flags.Int("version", 0, "")
			flags.Bool("json", false, "")
			err = Parse(flags, args, wanted)
			return flags.Args(), [4]string{*action, *reason, flags.Lookup("version").Value.String(),
				flags.Lookup("json").Value.String()}, err
		}
		arguments, said, err := parsed(strings.Split(line, "\n"))
		if err != nil {
			if Code(err) != misused || !strings.HasSuffix(err.Error(), "; see reconciler dlq --help") {
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
