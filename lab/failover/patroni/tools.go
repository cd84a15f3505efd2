package patroni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// ErrMissing says that this machine cannot run Patroni.
var ErrMissing = errors.New("no Patroni here")

// packages are those of Debian and Ubuntu that are unpacked, and not installed.
var packages = []string{
	"patroni", "etcd-server", "python3-etcd", "python3-psycopg2", "python3-psutil", "python3-dateutil", "python3-yaml",
	"python3-urllib3", "python3-six", "python3-dnspython",
}

// python is the one that Debian's packages of Python are built for.
const python = "/usr/bin/python3"

// tools are the programs of a cluster.
type tools struct {
	postgres string // folder of PostgreSQL's programs
	etcd     string
	modules  string // PYTHONPATH, or "": Patroni is installed
	account  string // who the servers run as, or "": who we are
}

// find takes the programs that are installed, and fetches the others into dir.
func find(ctx context.Context, dir string) (t tools, err error) {
	if t.postgres, err = postgresPrograms(); err != nil {
		return t, err
	}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root.
		t.account = "postgres"
		if _, err := user.Lookup(t.account); err != nil {
			return t, fmt.Errorf("%w: root has no user postgres to run the servers as", ErrMissing)
		}
	}
	t.etcd, err = exec.LookPath("etcd")
	if err == nil && t.imports(ctx) == nil {
		return t, nil
	}
	unpacked := filepath.Join(dir, "packages")
	if err := fetch(ctx, unpacked); err != nil {
		return t, fmt.Errorf("%w: it is not installed, and apt-get cannot fetch the packages %s: %w", ErrMissing,
			strings.Join(packages, ", "), err)
	}
	t.etcd = filepath.Join(unpacked, "usr/bin/etcd")
	t.modules = filepath.Join(unpacked, "usr/lib/python3/dist-packages")
	if err := t.imports(ctx); err != nil {
		return t, fmt.Errorf("%w: its packages do not fit %s: %w", ErrMissing, python, err)
	}
	return t, nil
}

// postgresPrograms is the folder of the newest PostgreSQL that can copy a server.
func postgresPrograms() (string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Sort(folders)
	slices.Reverse(folders)
	for _, folder := range append([]string{os.Getenv("PG_BINDIR")}, folders...) {
		if _, err := os.Stat(filepath.Join(folder, "pg_basebackup")); err == nil && folder != "" {
			return folder, nil
		}
	}
	return "", fmt.Errorf("%w: PostgreSQL with pg_basebackup is missing; PG_BINDIR names its programs", ErrMissing)
}

// imports reports whether Python finds Patroni, and all that it needs.
func (t tools) imports(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, python, "-c", "import patroni.__main__, patroni.dcs.etcd3, psycopg2")
	cmd.Env = t.environment()
	return said(cmd)
}

func (t tools) environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	if t.modules != "" {
		env = append(env, "PYTHONPATH="+t.modules)
	}
	return env
}

func fetch(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	download := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-qq"}, packages...)...)
	download.Dir = dir
	if err := said(download); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := said(exec.CommandContext(ctx, "dpkg", "-x", file, dir)); err != nil {
			return err
		}
	}
	return nil
}

// said runs a command. Its error has what the command has said last.
func said(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, lines[len(lines)-1])
	}
	return nil
}

// command is a program with its arguments, as it is run by the servers' account. The program ends with us.
func (t tools) command(program string, args ...string) (string, []string) {
	if t.account == "" {
		return program, args
	}
	return "setpriv", append([]string{"--reuid", t.account, "--regid", t.account, "--clear-groups",
		"--pdeathsig", "KILL", "--", program}, args...)
}
