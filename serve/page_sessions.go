package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"slices"

	"github.com/llmrun/llmrun"
)

// sessionDirs returns the directories in which models keep sessions.
func (s *Server) sessionDirs() (dirs []llmrun.SessionDir) {
	for _, m := range s.options.Models {
		c := m.Options.Cache
		dir := llmrun.SessionDir{Path: cmp.Or(c.KVDir, c.Dir), KeyFile: c.KeyFile}
		if dir.Path != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// pageSessions lists the sessions that can be reopened.
type pageSessions struct {
	// Kept: the server keeps sessions.
	Kept     bool                  `json:"kept"`
	Sessions []llmrun.SavedSession `json:"sessions"`
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) {
	dirs := s.sessionDirs()
	all := pageSessions{Kept: len(dirs) > 0, Sessions: []llmrun.SavedSession{}}
	for _, dir := range dirs {
		list, err := dir.Sessions()
		if err != nil {
			ollama{}.refuse(w, s.problemOf(r.Context(), err))
			return
		}
		all.Sessions = append(all.Sessions, list...)
	}
	writeJSON(w, http.StatusOK, all)
}

// withSession calls use with the directory that has the session of a request.
func (s *Server) withSession(use func(w http.ResponseWriter, dir llmrun.SessionDir, name string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := error(&problem{status: http.StatusNotFound, message: "there is no such session"})
		for _, dir := range s.sessionDirs() {
			failed := use(w, dir, r.PathValue("name"))
			if failed == nil {
				return
			}
			if !errors.Is(failed, fs.ErrNotExist) {
				err = failed
			}
		}
		ollama{}.refuse(w, s.problemOf(r.Context(), err))
	}
}

func showSession(w http.ResponseWriter, dir llmrun.SessionDir, name string) error {
	saved, err := dir.Show(name)
	if err != nil {
		return err
	}
	saved.IDs = nil
	writeJSON(w, http.StatusOK, saved)
	return nil
}

func removeSession(w http.ResponseWriter, dir llmrun.SessionDir, name string) error {
	freed, err := dir.Remove(name)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]int64{"freed": freed})
	return nil
}
