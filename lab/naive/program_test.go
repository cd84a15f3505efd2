package main

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"payonce/test/pgtest"
)

func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	right := map[string]string{
		"DATABASE_URL": pgtest.NewURL(t), "PSP_SECRET": "secret", "API_KEYS": "canary-key=acme",
		"HTTP_ADDR": "127.0.0.1:0", "OPERATOR_ADDR": "127.0.0.1:0",
	}
	for name, value := range map[string]string{
		"DATABASE_URL": "", "PSP_SECRET": "", "PSP_URL": "nowhere", "PSP_TIMEOUT": "soon", "API_KEYS": "canary-key",
		"HTTP_ADDR":     "nowhere",
		"OPERATOR_ADDR": "nowhere",
	} {
		wrong := maps.Clone(right)
		wrong[name] = value
		err := run(t.Context(), nil, func(n string) string { return wrong[n] }, new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, os.Getenv, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"DATABASE_URL", "HTTP_ADDR", "OPERATOR_ADDR", "PSP_URL", "PSP_SECRET", "PSP_TIMEOUT",
		"API_KEYS"} {
		if !strings.Contains(out.String(), "  "+name+" ") {
			t.Errorf("no %s in\n%s", name, &out)
		}
	}
	if err := run(t.Context(), []string{"--hlep"}, os.Getenv, &out, &out); err == nil {
		t.Error("an unknown argument was taken")
	}
}

// The numbers in the README, in the code and in the tests are one list, and its links lead somewhere.
func TestREADMETellsEveryFault(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	marked := numbers(read(t, "pay.go")+read(t, "psp.go")+read(t, "store.go"), `Fault (\d+):`)
	shown := numbers(read(t, "faults_test.go"), `(?m)^// Fault (\d+)\.`)
	told := numbers(readme, `(?m)^(\d+)\. \*\*`)
	if !slices.Equal(marked, told) || !slices.Equal(shown, told) || len(told) != 9 {
		t.Errorf("the README tells %v, the code marks %v, the tests show %v", told, marked, shown)
	}
	for _, link := range regexp.MustCompile("\\[`?([^]`]+)`?\\]\\(([^)]+)\\)").FindAllStringSubmatch(readme, -1) {
		text, target := link[1], read(t, link[2])
		if strings.HasPrefix(text, "Test") && !strings.Contains(target, "func "+text+"(") {
			t.Errorf("%s has no %s", link[2], text)
		}
	}
}

func numbers(text, pattern string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
