package threadpool

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// quotaThreads returns the number of threads that can run all the time within the CPU
// quotas of this process's control groups, rounded up, or most if that is less. Linux's
// /proc and /sys are below root.
//
// Go's runtime reads the process's own group only, and lets a program with less than two
// processors' time run two threads. Groups above it often have the quota: slices of
// systemd, pods. More threads than the quota allows use it up in the first part of each
// period, and the kernel then stops all of them, mostly in the middle of a run.
func quotaThreads(root fs.FS, most int) int {
	for line := range strings.Lines(readLine(root, "proc/self", "cgroup")) {
		// "0::/user.slice" in version 2, "4:cpu,cpuacct:/docker/…" in version 1.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, quota := "sys/fs/cgroup", quotaV2
		switch {
		case fields[0] == "0" && fields[1] == "":
		case strings.Contains(","+fields[1]+",", ",cpu,"):
			mount, quota = "sys/fs/cgroup/cpu", quotaV1
		default:
			continue
		}
		// A container may see its own group at the root of the hierarchy instead of at
		// the path that the kernel names: every directory on the way counts.
		for dir := path.Join("/", fields[2]); ; dir = path.Dir(dir) {
			if runs, period := quota(root, path.Join(mount, dir)); runs > 0 && period > 0 {
				most = int(min(int64(most), (runs-1)/period+1))
			}
			if dir == "/" {
				break
			}
		}
	}
	return most
}

// quotaV2 and quotaV1 return how long a control group may run in a period, in
// microseconds of all its threads; 0 if it has no quota.
func quotaV2(root fs.FS, dir string) (runs, period int64) {
	allowed, per, _ := strings.Cut(readLine(root, dir, "cpu.max"), " ")
	return microseconds(allowed), microseconds(per)
}

func quotaV1(root fs.FS, dir string) (runs, period int64) {
	return microseconds(readLine(root, dir, "cpu.cfs_quota_us")), microseconds(readLine(root, dir, "cpu.cfs_period_us"))
}

// microseconds returns 0 for "max", for -1 and for invalid text.
func microseconds(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, n)
}
