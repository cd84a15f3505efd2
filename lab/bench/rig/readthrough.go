package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// APIReadThrough is APIInProcess with a read-through of replays before the database. BENCH_CACHE says where answers are
// kept.
const APIReadThrough = "api-readthrough"

// The one line of the source that differs.
const (
	toTheDatabase = "return s.execute(ctx, ref, fingerprint, subject, m)"
	readThrough   = "return s.readThrough(ctx, ref, fingerprint, subject, m)"
)

// BuildReadThrough builds APIReadThrough from the tree, with one line changed and two files added.
func (r *Rig) BuildReadThrough(ctx context.Context) error {
	payments, with := filepath.Join(r.root, "internal", "payments"), filepath.Join(r.root, "lab", "bench", "testdata")
	replaced := filepath.Join(payments, "create.go")
	source, err := os.ReadFile(replaced)
	if err != nil {
		return err
	}
	changed, err := withOneChange(string(source), toTheDatabase, readThrough)
	if err != nil {
		return fmt.Errorf("%s: %w", replaced, err)
	}
	if err := os.WriteFile(r.Path("create.go"), []byte(changed), 0o600); err != nil {
		return err
	}
	overlay := map[string]string{
		replaced: r.Path("create.go"),
		filepath.Join(r.root, "internal", "gateway", "wire", "transport.go"): filepath.Join(with, "inprocess.go"),
	}
	for _, name := range []string{"readthrough.go", "redis.go"} {
		if _, err := os.Stat(filepath.Join(payments, name)); err == nil {
			return fmt.Errorf("payments has a %s of its own, which the bench would replace", name)
		}
		overlay[filepath.Join(payments, name)] = filepath.Join(with, name)
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.Path("readthrough.json"), raw, 0o600); err != nil {
		return err
	}
	return r.Go(ctx, "", "build", "-buildvcs=false", "-o", r.Program(APIReadThrough), "-overlay",
		r.Path("readthrough.json"), "./cmd/api")
}

// withOneChange puts a text in the place of another that occurs once. A source that has moved on would otherwise be
// built as it is, and measured as if it were another.
func withOneChange(source, from, to string) (string, error) {
	if n := strings.Count(source, from); n != 1 {
		return "", fmt.Errorf("%q is there %d times, must be once: the bench replaces it", from, n)
	}
	return strings.Replace(source, from, to, 1), nil
}
