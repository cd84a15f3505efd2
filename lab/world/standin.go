package world

import (
	"errors"
	"fmt"
	"os"

	"payonce/demo/embeddedpg"
)

// ServerOptions are those of the server, for another one that is to take its place.
func (s *Site) ServerOptions() embeddedpg.Options { return s.options }

// ServerProgram is the path of a program that came with the server, such as pg_basebackup. It need not exist.
func (s *Site) ServerProgram(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server.Program(name)
}

// LosePostgres kills the server with all its processes, as a machine that loses its power does. Nothing starts it
// again.
func (s *Site) LosePostgres() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Crash()
}

// Follow makes another server that of this site, when the one before it is lost. Worlds keep their pools and proxies:
// who wants those to find the new one has to say so in their connection strings.
func (s *Site) Follow(server *embeddedpg.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.server.Done():
	default:
		return errors.New("follow another server: the one before it still runs")
	}
	if err := os.RemoveAll(s.server.DataDir()); err != nil {
		return fmt.Errorf("remove the lost server's data: %w", err)
	}
	s.server = server
	return nil
}
