package cli

import (
	"flag"
	"io"
	"slices"
)

// AsksForHelp reports whether a command line asks for help anywhere.
func AsksForHelp(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return arg == "--help" || arg == "-help" || arg == "-h" })
}

// NewFlags is an empty set of flags of a command, which is named as its help is asked for: "api keys". It prints
// nothing by itself.
func NewFlags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// Parse takes flags before, between and behind the arguments, of which there may be as many as wanted; flags.Arg has
// them. One argument too many is refused: it may be the value of a flag that somebody forgot to write.
func Parse(flags *flag.FlagSet, args []string, wanted int) error {
	var positional []string
	for {
		if err := flags.Parse(args); err != nil {
			return Usagef("%w; see %s --help", err, flags.Name())
		}
		if flags.NArg() == 0 {
			break
		}
		positional, args = append(positional, flags.Arg(0)), flags.Args()[1:]
	}
	if len(positional) > wanted {
		return Usagef("argument %q is not known; see %s --help", positional[wanted], flags.Name())
	}
	// So that flags.Arg finds them.
	return flags.Parse(append([]string{"--"}, positional...))
}

// Help writes text when args ask for it, and refuses any other argument: it is for a command that takes none.
func Help(stdout io.Writer, text, command string, args []string) (asked bool, err error) {
	if AsksForHelp(args) {
		_, err := io.WriteString(stdout, text)
		return true, err
	}
	return false, Parse(NewFlags(command), args, 0)
}

// Quiet is getenv for a command that a person waits for: it logs what is wrong, and more only when LOG_LEVEL asks for
// it.
func Quiet(getenv func(string) string) func(string) string {
	return func(name string) string {
		value := getenv(name)
		if name == "LOG_LEVEL" && value == "" {
			return "warn"
		}
		return value
	}
}
