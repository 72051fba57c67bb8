package tiering

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Machine is the memory of this machine, and what the control groups of this process permit.
type Machine struct {
	Total      int64   // bytes of memory; 0 = unknown
	Limit      int64   // the lowest limit of the control groups; 0 = none
	Processors float64 // the lowest quota of the control groups of version 2; 0 = none
}

// machineFromProc reads a machine with Linux, whose files are in root.
func machineFromProc(root fs.FS) (m Machine) {
	_, m.Total = machineMemory(root)
	memory, quota := int64(math.MaxInt64), math.Inf(1)
	eachGroup(root, func(dir string, files groupFiles) {
		memory = min(memory, groupLimit(root, dir, files))
		quota = min(quota, groupQuota(root, dir))
	})
	if memory < math.MaxInt64 && (m.Total == 0 || memory < m.Total) { // version 1 has a large number for no limit
		m.Limit = memory
	}
	if !math.IsInf(quota, 1) {
		m.Processors = quota
	}
	return m
}

// groupQuota returns the processors that a control group of version 2 may use, infinity without a quota.
func groupQuota(root fs.FS, dir string) float64 {
	most, period, _ := strings.Cut(strings.TrimSpace(readText(root, path.Join(dir, "cpu.max"))), " ")
	used, err := strconv.ParseFloat(most, 64) // "max" for no quota
	of, failed := strconv.ParseFloat(period, 64)
	if err != nil || failed != nil || used <= 0 || of <= 0 {
		return math.Inf(1)
	}
	return used / of
}
