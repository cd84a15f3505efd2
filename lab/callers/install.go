package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// steps make a folder of scripts ready. What they need is on the machine or is named as missing: nothing is installed
// outside of the folder.
var steps = map[string][]string{
	"node":   {"npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"},
	"golang": {"go", "build", "-buildvcs=false", "-o", "callers", "."},
	"jvm":    {"javac", "Pay.java", "UrlConnection.java", "NewClient.java"},
}

// install copies the scripts, makes each folder ready that is needed, and starts each caller once: one that does not
// say its version is missing.
func install(ctx context.Context, chosen []caller, from, dir string) (ready []caller, missing []string, err error) {
	prepared := map[string]error{}
	for _, c := range chosen {
		folder := path.Dir(c.script)
		if _, done := prepared[folder]; !done {
			prepared[folder] = prepare(ctx, folder, from, dir)
		}
		why := prepared[folder]
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
		if c.settings {
			c.set = true
			ready = append(ready, c)
		}
	}
	return ready, missing, nil
}

func prepare(ctx context.Context, folder, from, dir string) error {
	if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(from, folder))); err != nil {
		return fmt.Errorf("copy the callers: %w", err)
	}
	step := steps[folder]
	if step == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, step[0], step[1:]...)
	cmd.Dir = filepath.Join(dir, folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w %s", strings.Join(step, " "), err, out)
	}
	return nil
}

// ask starts a caller for nothing but its version.
func (c caller) ask(ctx context.Context) (version string, err error) {
	p, hello, err := c.start(ctx, "")
	if err != nil {
		return "", err
	}
	p.end()
	return hello.Version, nil
}
