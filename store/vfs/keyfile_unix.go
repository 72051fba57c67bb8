//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// checkKeyAccess returns an error if other users may read or change a key file.
func checkKeyAccess(name string) error {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return err
	}
	switch user := os.Geteuid(); {
	case int(st.Uid) != user && user != 0:
		return fmt.Errorf("it belongs to user %d and this program runs as user %d", st.Uid, user)
	case st.Mode&0o077 != 0:
		return errors.New("other users may read or change it; run chmod 600 on it")
	}
	return nil
}
