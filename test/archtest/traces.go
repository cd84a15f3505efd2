package archtest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// traces are strings that betray where a file was written and would break or
// mislead elsewhere. The bracketed letters keep this file from matching.
var traces = []*regexp.Regexp{
	regexp.MustCompile(`(?m)(^|[^a-z.])/(work|farm)/`),
	regexp.MustCompile(`/tmp/bash[_]jobs`),
	regexp.MustCompile(`"resolved": "https?://`),
	regexp.MustCompile(`GOPROXY[=]`),
	regexp.MustCompile(`//registry\.`),
}

// traceBreaches reads the named files. Binary files are left
// alone: git's own test, a NUL byte near the start.
func traceBreaches(root fs.FS, names []string) ([]breach, error) {
	var breaches []breach
	for _, name := range names {
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("look for traces: %w", err)
		}
		if bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
			continue
		}
		for _, trace := range traces {
			if !trace.Match(content) {
				continue
			}
			number := 0
			for line := range bytes.Lines(content) {
				number++
				if trace.Match(line) {
					breaches = append(breaches, breach{fmt.Sprintf("%s:%d", name, number),
						"matches " + trace.String() + ", a trace of the machine it was written on"})
				}
			}
		}
	}
	return breaches, nil
}

// trackedFiles lists what is committed or about to be. Without git, or in a
// checkout that git refuses to read, it lists all files in directories of
// ours.
func trackedFiles(ctx context.Context, dir string, root fs.FS) ([]string, error) {
	// A checkout owned by somebody else is common in containers.
	git := exec.CommandContext(ctx, "git", "-c", "safe.directory=*",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	git.Dir = dir
	output, err := git.Output()
	if err != nil {
		return allFiles(root)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(output), "\x00"), "\x00") {
		// A deleted file stays listed until the deletion is staged, and a
		// link would be read as what it points to.
		if info, err := fs.Lstat(root, name); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}

// filledByTools are directories that .gitignore names, too.
var filledByTools = []string{".git", ".demo", "bin", "mine", "node_modules"}

func allFiles(root fs.FS) ([]string, error) {
	var names []string
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(filledByTools, entry.Name()):
			return fs.SkipDir
		case entry.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	return names, nil
}
