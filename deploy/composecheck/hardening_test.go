package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const hardened = `
name: synthetic
services:
  base:
    image: base:1
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    user: "999:999"
    healthcheck: {test: [CMD, probe]}
  once:
    image: base:1
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    user: "999:999"
    environment: {DATABASE_URL: "postgres://two:b@base/x"}
    restart: "no"
  top:
    image: top:1
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    user: nobody
    environment: {DATABASE_URL: "postgres://one:a@base/x"}
    ports: ["127.0.0.1:80:80"]
    healthcheck: {test: [CMD, probe]}
    depends_on:
      base: {condition: service_healthy}
      once: {condition: service_completed_successfully}
`

func TestHardenedFilePasses(t *testing.T) {
	t.Parallel()
	if faults := faultsOf(t, hardened); len(faults) > 0 {
		t.Errorf("faults: %v", faults)
	}
}

func TestEachDemandCanFail(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, old, new, fault string }{
		{"writable root", "read_only: true", "read_only: false", "base: read_only"},
		{"capabilities kept", "cap_drop: [ALL]", "cap_drop: [CHOWN]", "base: cap_drop"},
		{"capability added", "cap_drop: [ALL]", "cap_drop: [ALL]\n    cap_add: [CHOWN]", "base: cap_add"},
		{"privileged", "image: top:1", "image: top:1\n    privileged: true", "top: privileged"},
		{"new privileges", "no-new-privileges:true", "no-new-privileges:false", "base: security_opt"},
		{"root by name", `user: "999:999"`, "user: root", "base: user"},
		{"root by number", `user: "999:999"`, `user: "0:999"`, "base: user"},
		{"root by default", `user: "999:999"`, "tty: false", "base: user"},
		{"host namespace", "user: nobody", "user: nobody\n    pid: host", "top: it must not share"},
		{"no health check", "    healthcheck: {test: [CMD, probe]}\n", "", "base: healthcheck is missing"},
		{"health check disabled", "{test: [CMD, probe]}", "{disable: true}", "base: healthcheck is missing"},
		{"health check in a shell", "[CMD, probe]", "[CMD-SHELL, probe]", "base: healthcheck must be"},
		{"one-shot that restarts", `restart: "no"`, "restart: always", "once: it is awaited"},
		{"waits for the start only", "service_healthy", "service_started", "top: depends_on base"},
		{"port on every interface", "127.0.0.1:80:80", "80:80", "top: port 80"},
		{"host directory", "user: nobody", "user: nobody\n    volumes: [\"/etc:/etc\"]", "top: volume /etc"},
		{"image without version", "image: top:1", "image: top", "top: image"},
		{"latest image", "image: top:1", "image: top:latest", "top: image"},
		{"Dockerfile is gone", "image: top:1", "image: top:1\n    build: {context: ., dockerfile: gone}",
			"top: build.dockerfile"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(hardened, row.old, row.new, 1)
			if broken == hardened {
				t.Fatalf("the synthetic file has no %q", row.old)
			}
			faults := faultsOf(t, broken)
			if len(faults) != 1 || !strings.HasPrefix(faults[0], row.fault) {
				t.Errorf("faults are %q, want one that starts with %q", faults, row.fault)
			}
		})
	}
}

func TestDatabaseRoleIsSharedByNobody(t *testing.T) {
	t.Parallel()
	for _, shared := range []string{"two:a", "one:b"} {
		faults := faultsOf(t, strings.Replace(hardened, "one:a", shared, 1))
		if len(faults) != 2 || !strings.HasPrefix(faults[0], "once: it logs in to the database like top") {
			t.Errorf("%s: faults are %q", shared, faults)
		}
	}
}

func TestServiceOfAProfileIsCheckedToo(t *testing.T) {
	t.Parallel()
	faults := faultsOf(t, strings.Replace(hardened, "user: nobody", "user: root\n    profiles: [on-demand]", 1))
	if len(faults) != 1 || !strings.HasPrefix(faults[0], "top: user") {
		t.Errorf("faults are %q, want one of the service in the profile", faults)
	}
}

func TestFileWithoutServicesIsRefused(t *testing.T) {
	t.Parallel()
	if faults := faultsOf(t, "name: synthetic\nservices: {}\n"); len(faults) != 1 {
		t.Errorf("faults are %q, want one", faults)
	}
}

func TestOurFilePasses(t *testing.T) {
	t.Parallel()
	var output strings.Builder
	if err := run(t.Context(), []string{"../../compose.yaml"}, &output); err != nil {
		t.Errorf("%v\n%s", err, output.String())
	}
}

// An operator who empties a secret wants none. Empty, it must not become the one that everybody can read in the file.
// Grafana alone falls back on a public password of its own.
func TestEmptySecretIsNotThePublicOne(t *testing.T) {
	t.Parallel()
	public := regexp.MustCompile(`demo|whsec_|:payonce[a-z-]*@|^payonce(-[a-z]+)?$`)
	files, err := filepath.Glob("../../compose*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %v: %v", files, err)
	}
	for _, file := range files {
		project, err := load(t.Context(), file, "PSP_SECRET=", "WEBHOOK_SECRET=", "STRIPE_SECRET=",
			"STRIPE_WEBHOOK_SECRETS=", "POSTGRES_PASSWORD=", "MIGRATOR_PASSWORD=", "API_PASSWORD=",
			"RECONCILER_PASSWORD=")
		if err != nil {
			t.Fatal(err)
		}
		for name, service := range project.Services {
			for variable, value := range service.Environment {
				if strings.Contains(variable, "SECRET") || strings.HasSuffix(variable, "_PASSWORD") ||
					variable == "DATABASE_URL" {
					if value != nil && variable != "GF_SECURITY_ADMIN_PASSWORD" && public.MatchString(*value) {
						t.Errorf("%s: %s of %s is %s", file, variable, name, *value)
					}
				}
			}
		}
	}
}

func TestFileWithAnUnknownMemberIsRefused(t *testing.T) {
	t.Parallel()
	file := write(t, strings.Replace(hardened, "read_only", "readonly", 1))
	if err := run(t.Context(), []string{file}, &strings.Builder{}); err == nil {
		t.Error("a misspelt member passes")
	}
}

func faultsOf(t *testing.T, text string) []string {
	t.Helper()
	project, err := load(t.Context(), write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return check(project)
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A tag may be moved to another image. The image that is built here has no digest before it is built. Compose files
// with a longer name are for trials alone.
func TestImagesAreNamedByTheirDigests(t *testing.T) {
	t.Parallel()
	for path, named := range map[string]string{"../../compose.yaml": "image: ", "../Dockerfile": "FROM "} {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		images := regexp.MustCompile(`(?m)^ *`+named+`(\S+)`).FindAllStringSubmatch(string(file), -1)
		if len(images) < 2 {
			t.Fatalf("%s names %d images", path, len(images))
		}
		digest := regexp.MustCompile(`^[^@]+:[^@]+@sha256:[0-9a-f]{64}$`)
		for _, image := range images {
			if image[1] != "payonce:dev" && !digest.MatchString(image[1]) {
				t.Errorf("%s: %s has no digest", path, image[1])
			}
		}
	}
}
