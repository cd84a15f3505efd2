package embeddedpg

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"payonce/test/wait"
)

func TestRootDropsToThePostgresUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("no user postgres here")
	}
	s := startIn(t, thisHost(nil), Options{DataDir: newDir(t)})
	if got := ownerName(t, clusterIn(t, s.DataDir())); got != postgres.Username {
		t.Errorf("cluster belongs to %s", got)
	}
}

func TestRootDropsToNobodyWithoutAPostgresUser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	s := startIn(t, hostWithUsers("nobody"), Options{DataDir: newDir(t)})
	query(t, s.URL("postgres"), "SELECT 1")
	if got := ownerName(t, clusterIn(t, s.DataDir())); got != "nobody" {
		t.Errorf("cluster belongs to %s", got)
	}
}

func TestOnlyWeAndTheServerReachTheSocket(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := startIn(t, thisHost(nil), Options{DataDir: newDir(t)})
	socket := filepath.Join(s.socket.dir, socketFile)
	if err := statAs(owner(clusterIn(t, s.DataDir())), socket); err != nil {
		t.Errorf("the server's user: %v", err)
	}
	if err := statAs(unnamed, socket); err == nil {
		t.Error("another user reaches the socket")
	}
}

func TestUnreachableDirectoryIsReplacedForTheServersUser(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	h := thisHost(nil)
	h.root = newDir(t) // so that the substitute is not the machine's /var/lib
	closed := t.TempDir()
	var told []string
	o := Options{DataDir: filepath.Join(closed, "data"), Progress: func(line string) { told = append(told, line) }}

	s := startIn(t, h, o)
	query(t, s.URL("postgres"), "CREATE TABLE kept AS SELECT 42 AS n")
	if !strings.HasPrefix(s.DataDir(), filepath.Join(h.root, "var/lib/payonce")) {
		t.Errorf("data directory = %s", s.DataDir())
	}
	mustContain(t, told[0], "cannot enter", o.DataDir, s.DataDir())
	if _, err := os.Stat(o.DataDir); !os.IsNotExist(err) {
		t.Errorf("the unreachable directory was made all the same: %v", err)
	}

	stop(t, s)
	if got := query(t, startIn(t, h, o).URL("postgres"), "SELECT n FROM kept"); got != "42" {
		t.Errorf("kept = %s, want 42", got)
	}
}

func TestEmptyClosedDirectoryIsOpenedButNotAFullOne(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	h := thisHost(nil)
	h.root = newDir(t)
	empty, full := filepath.Join(newDir(t), "empty"), filepath.Join(newDir(t), "full")
	for _, dir := range []string{empty, full} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(full, "private"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if s := startIn(t, h, Options{DataDir: empty}); s.DataDir() != empty {
		t.Errorf("empty directory replaced by %s", s.DataDir())
	}
	if s := startIn(t, h, Options{DataDir: full}); s.DataDir() == full {
		t.Error("a directory with other content was opened")
	}
	if info, err := os.Stat(full); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("full directory: %v, %v", info.Mode(), err)
	}
}

func TestRootWithoutUsersStartsInANamespaceAndLaterAdopts(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	needNamespaces(t)
	dir := newDir(t)
	s := startIn(t, hostWithUsers(), Options{DataDir: dir})
	query(t, s.URL("postgres"), "CREATE TABLE kept AS SELECT 42 AS n")
	if got := owner(clusterIn(t, dir)); got != 0 {
		t.Errorf("cluster belongs to %d, want root", got)
	}
	stop(t, s)

	again := startIn(t, hostWithUsers("nobody"), Options{DataDir: dir})
	if got := query(t, again.URL("postgres"), "SELECT n FROM kept"); got != "42" {
		t.Errorf("kept = %s, want 42", got)
	}
	if got := ownerName(t, clusterIn(t, dir)); got != "nobody" {
		t.Errorf("cluster belongs to %s", got)
	}
}

func TestProgramsThatOnlyRootReachesRunInANamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	needNamespaces(t)
	found, err := thisHost(nil).findBinaries(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := thisHost(nil)
	private := Binaries{Dir: t.TempDir(), Version: found.Version, Major: found.Major}
	if err := os.Symlink(found.Path("postgres"), private.Path("postgres")); err != nil {
		t.Fatal(err)
	}
	postgres := h.dropAccounts(0)[0]
	if as, err := h.accountFor(t.Context(), postgres, found); err != nil || as.kind != dropped {
		t.Errorf("public programs run as %s, %v", as.name, err)
	}
	if as, err := h.accountFor(t.Context(), postgres, private); err != nil || as.kind != namespaced {
		t.Errorf("private programs run as %s, %v", as.name, err)
	}
}

func TestClusterOfAnOrdinaryUserStaysThatUsers(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := newDir(t)
	stop(t, startIn(t, hostWithUsers("nobody"), Options{DataDir: dir}))
	startIn(t, thisHost(nil), Options{DataDir: dir})
	if got := ownerName(t, clusterIn(t, dir)); got != "nobody" {
		t.Errorf("cluster now belongs to %s", got)
	}
}

// Containers are often started with a bare number for a user.
func TestUserWithoutANameStartsInANamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	needNamespaces(t)
	dir := newDir(t)
	if err := os.Chown(dir, unnamed, unnamed); err != nil {
		t.Fatal(err)
	}
	cmd, first := starter(t, dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unnamed, Gid: unnamed}})
	if got := owner(clusterIn(t, dir)); got != unnamed {
		t.Errorf("cluster belongs to %d", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "server ends with its starter", func() bool { return gone(first.PID) })
}

// Containers take capabilities from root. Without any, it can't change its user,
// nor map its own id into a namespace; without KILL, it couldn't stop a server
// that runs as another user.
func TestRootWithoutCapabilitiesStartsInANamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needRoot(t)
	needNamespaces(t)
	const all, kill = 41, 5
	lacking := map[string]func(capability uintptr) bool{
		"all":  func(uintptr) bool { return true },
		"KILL": func(capability uintptr) bool { return capability == kill },
	}
	for name, lacks := range lacking {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			// The thread that gives up capabilities is not used again: it ends with
			// this goroutine, which therefore has to wait for the starter.
			reports, release := make(chan report, 1), make(chan struct{})
			go func() {
				defer close(reports)
				runtime.LockOSThread()
				const prctlDropBounding = 24
				for capability := range uintptr(all) {
					if lacks(capability) {
						_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prctlDropBounding, capability, 0)
					}
				}
				_, got := tryStarter(t, dir, nil)
				reports <- got
				<-release
			}()
			got := <-reports
			defer close(release)
			if got.Err != "" || got.PID == 0 {
				t.Fatalf("starter: %+v", got)
			}
			query(t, got.URL, "SELECT 1")
			if uid := owner(clusterIn(t, dir)); uid != 0 {
				t.Errorf("cluster belongs to %d, want root", uid)
			}
		})
	}
}

// In a rootless container we are root, with all capabilities, over one user only.
func TestRootOfItsOwnNamespaceOnlyStartsInAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	needNamespaces(t)
	_, got := starter(t, newDir(t), rootless())
	query(t, got.URL, "SELECT 1")
	if uid := owner(clusterIn(t, got.Dir)); uid != os.Geteuid() {
		t.Errorf("cluster belongs to %d, want %d", uid, os.Geteuid())
	}
}

func TestNoAccountAtAllIsOneClearError(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	_, got := tryStarter(t, newDir(t), rootless(), noNamespacesEnv+"=1")
	if want := "choose data directory: " + errNoAccount.Error(); got.Err != want {
		t.Errorf("error = %s\n  want = %s", got.Err, want)
	}
}

// rootless makes the child root of a user namespace that holds nobody else.
func rootless() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

func hostWithUsers(known ...string) host {
	h := thisHost(nil)
	h.lookupUser = func(name string) (*user.User, error) {
		for _, one := range known {
			if one == name {
				return user.Lookup(name)
			}
		}
		return nil, user.UnknownUserError(name)
	}
	return h
}

func needNamespaces(t *testing.T) {
	t.Helper()
	h := thisHost(nil)
	if !h.canEnter(t.Context(), h.ourAccount(namespaced), "/") {
		t.Skip("no user namespaces here")
	}
}

func ownerName(t *testing.T, path string) string {
	t.Helper()
	found, err := user.LookupId(strconv.Itoa(owner(path)))
	if err != nil {
		t.Fatal(err)
	}
	return found.Username
}

// statAs asks as another user whether the path exists.
func statAs(uid int, path string) error {
	cmd := exec.Command("/bin/sh", "-c", `test -S "$1"`, "sh", path)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return cmd.Run()
}
