package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// left are the files of the new folder that are not Payonce's. @MODULE@ and the like are filled in.
//
//go:embed left
var left embed.FS

// places are where the files of left go.
var places = map[string]string{
	"README.md": "README.md", "Makefile": "Makefile", "compose.yaml": "compose.yaml", "Dockerfile": "Dockerfile",
	"ci.yml": ".github/workflows/ci.yml", "gitignore": ".gitignore", "dockerignore": ".dockerignore",
	"CHANGELOG.md": "CHANGELOG.md", "released.txt": "db/migrations/released.txt",
}

// coreOnly is what only a copy without operations must be told.
var coreOnly = regexp.MustCompile(`(?s)<!-- core -->\n(.*?)<!-- end -->\n`)

const profile = "lab/grade/profile/profiles/payonce.json"

func (w wish) leave(ctx context.Context, dir string) error {
	values, err := w.values(ctx)
	if err != nil {
		return err
	}
	for from, to := range places {
		text, err := fs.ReadFile(left, "left/"+from)
		if err != nil {
			return fmt.Errorf("read a file to leave: %w", err)
		}
		kept := "$1"
		if w.operations {
			kept = ""
		}
		text = coreOnly.ReplaceAll(text, []byte(kept))
		if err := write(dir, to, []byte(values.Replace(string(text)))); err != nil {
			return err
		}
	}
	spoken, err := os.ReadFile(filepath.Join(w.from, profile))
	if err != nil {
		return fmt.Errorf("read the grader's profile: %w", err)
	}
	return write(dir, "grade.json", []byte(strings.Replace(string(spoken), `"payonce"`, `"`+w.name()+`"`, 1)))
}

// name is the last part of the module's path that is no version, as Docker takes it for a project and an image.
func (w wish) name() string {
	name := filepath.Base(w.module)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(name) {
		name = filepath.Base(filepath.Dir(w.module))
	}
	name = strings.Trim(regexp.MustCompile(`[^A-Za-z0-9-]`).ReplaceAllString(name, "-"), "-")
	if name == "" {
		return "service"
	}
	return strings.ToLower(name)
}

// values are what the files of left leave open. The images are those that Payonce itself is made of.
func (w wish) values(ctx context.Context) (*strings.Replacer, error) {
	commit, err := w.commit(ctx)
	if err != nil {
		return nil, err
	}
	rings := "core"
	if w.operations {
		rings = "core,operations"
	}
	pairs := []string{"@MODULE@", w.module, "@NAME@", w.name(), "@COMMIT@", commit, "@RINGS@", rings}
	for mark, where := range map[string]struct{ file, line string }{
		"@GO_IMAGE@":       {"deploy/Dockerfile", `(?m)^FROM (golang:\S+) AS build$`},
		"@BASE_IMAGE@":     {"deploy/Dockerfile", `(?m)^FROM (gcr\.io/distroless/\S+)$`},
		"@POSTGRES_IMAGE@": {"compose.yaml", `(?m)^    image: (postgres:\S+)`},
	} {
		content, err := os.ReadFile(filepath.Join(w.from, where.file))
		if err != nil {
			return nil, fmt.Errorf("read Payonce's file: %w", err)
		}
		image := regexp.MustCompile(where.line).FindSubmatch(content)
		if image == nil {
			return nil, fmt.Errorf("%s has no image like %s", where.file, where.line)
		}
		pairs = append(pairs, mark, string(image[1]))
	}
	return strings.NewReplacer(pairs...), nil
}
