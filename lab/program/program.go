// Package program is what the programs of the labs have alike: how they read their settings, what they say of
// themselves, where their files are while they run, the form of a report, and how they start other programs.
//
// It refuses to know what is tried and what is right.
package program

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/cli"
	"payonce/internal/config"
)

// Violation as each report has it: I1 to I11, "case" for what else a lab expects, or "sometimes" for what a storm
// should have seen.
type Violation struct {
	Invariant string `json:"invariant"`
	Where     string `json:"where"`
	Detail    string `json:"detail"`
}

// Broken is a violation.
func Broken(invariant, where, detail string) Violation { return Violation{invariant, where, detail} }

// Settings reads those of T, each from the variable that its tag names. An empty variable is not set.
func Settings[T any](name string, getenv func(string) string) (s T, err error) {
	environment := map[string]string{}
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		variable := of.Field(i).Tag.Get("env")
		if v := getenv(variable); v != "" {
			environment[variable] = v
		}
	}
	if err := env.ParseWithOptions(&s, env.Options{Environment: environment}); err != nil {
		return s, fmt.Errorf("read settings: %w; see %s --help", err, name)
	}
	return s, nil
}

// Seed is the given one, or a new one that is short enough to be typed.
func Seed(given uint64) uint64 {
	for given == 0 {
		given = uint64(rand.Uint32())
	}
	return given
}

// Help prints the usage and the settings if the arguments ask for it. It refuses other arguments than the known ones.
func Help(stdout io.Writer, name, usage string, settings any, args []string, known ...string) (asked bool, err error) {
	command := strings.Join(args, " ")
	if cli.AsksForHelp(args) || command == "help" {
		fmt.Fprint(stdout, usage)
		return true, config.Describe(stdout, nil, settings)
	}
	for _, each := range append(known, "") {
		if command == each {
			return false, nil
		}
	}
	return false, cli.Usagef("argument %q is not known; see %s --help", command, name)
}

// TempDir is a directory that everybody may enter: PostgreSQL may run as another user.
func TempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "payonce-"+name+"-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// Write writes a report as JSON.
func Write(path string, report any) error {
	raw, err := json.Marshal(report, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("marshal report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o600)
}
