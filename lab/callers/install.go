package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// systemPython is the one that Debian's packages are for; another one may come first on the path.
const systemPython = "/usr/bin/python3"

// steps make a kind's folder ready. What they need is on the machine or is named as missing: nothing is installed
// outside of the folder.
func (k kind) steps() [][]string {
	switch k {
	case node:
		return [][]string{{"npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"}}
	case golang:
		return [][]string{{"go", "build", "-buildvcs=false", "-o", "callers", "."}}
	case jvm:
		return [][]string{{"javac", "Pay.java", "UrlConnection.java", "NewClient.java"}}
	case python, shell, php, ruby, perl:
	}
	return nil
}

// install copies the scripts, makes each kind ready that is needed, and starts each caller once: one that does not say
// its version is missing.
func install(ctx context.Context, chosen []caller, from, dir string) (ready []caller, missing []string, err error) {
	failures := map[string]error{}
	for _, c := range chosen {
		folder := c.kind.folder()
		to := filepath.Join(dir, folder)
		if _, done := failures[folder]; !done {
			if err := os.CopyFS(to, os.DirFS(filepath.Join(from, folder))); err != nil {
				return nil, nil, fmt.Errorf("copy the callers: %w", err)
			}
			failures[folder] = prepare(ctx, to, c.kind)
		}
		why := failures[folder]
		if why == nil {
			c.dir = dir
			c.version, why = c.ask(ctx)
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if why != nil {
			missing = append(missing, fmt.Sprintf("%s: %s", c.name, strings.Join(strings.Fields(why.Error()), " ")))
			continue
		}
		ready = append(ready, c)
	}
	return ready, missing, nil
}

func prepare(ctx context.Context, dir string, k kind) error {
	for _, step := range k.steps() {
		cmd := exec.CommandContext(ctx, step[0], step[1:]...) //nolint:gosec // the steps are those above
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w %s", strings.Join(step, " "), err, out)
		}
	}
	return nil
}

// ask starts a caller for nothing but its version.
func (c caller) ask(ctx context.Context) (version string, err error) {
	p, hello, err := c.start(ctx, "http://127.0.0.1:1/")
	if err != nil {
		return "", err
	}
	p.end()
	return hello.Version, nil
}
