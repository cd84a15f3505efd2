package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// PrintVersion writes which build of the program this is: one line, for bug reports.
func PrintVersion(stdout io.Writer, name string) error {
	build, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintln(stdout, versionLine(name, build))
	return err
}

// revisionShown is how many digits of a revision tell it from all others.
const revisionShown = 12

// versionLine is made of what the go command has stamped: a version for a released module, a revision for a checkout,
// else neither.
func versionLine(name string, build *debug.BuildInfo) string {
	if build == nil {
		build = &debug.BuildInfo{}
	}
	line := name + " " + cmp.Or(strings.Trim(build.Main.Version, "()"), "devel")
	stamped := map[string]string{}
	for _, s := range build.Settings {
		stamped[s.Key] = s.Value
	}
	if revision := stamped["vcs.revision"]; revision != "" {
		line += ", revision " + revision[:min(len(revision), revisionShown)]
		if stamped["vcs.modified"] == "true" {
			line += " with changes"
		}
	}
	return strings.TrimSpace(line + ", " + cmp.Or(build.GoVersion, "go unknown"))
}
