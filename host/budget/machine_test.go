package budget

import (
	"testing"
	"testing/fstest"
)

func TestCgroupLimit(t *testing.T) {
	const group = "sys/fs/cgroup/system.slice/rsmhost.service"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing", nil, 0},
		{"version 1", map[string]string{"proc/self/cgroup": "4:memory:/x\n"}, 0},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/system.slice/rsmhost.service\n", group + "/memory.max": "max\n"}, 0},
		{"its own", map[string]string{"proc/self/cgroup": "1:cpu:/\n0::/system.slice/rsmhost.service\n", group + "/memory.max": "1073741824\n"}, 1 << 30},
		{"one above is less", map[string]string{"proc/self/cgroup": "0::/system.slice/rsmhost.service\n", group + "/memory.max": "1073741824\n",
			"sys/fs/cgroup/system.slice/memory.max": "536870912\n"}, 512 << 20},
		{"its own is less", map[string]string{"proc/self/cgroup": "0::/system.slice/rsmhost.service\n", group + "/memory.max": "1048576\n",
			"sys/fs/cgroup/system.slice/memory.max": "536870912\n"}, 1 << 20},
		{"in a namespace", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20},
		{"a group outside the namespace", map[string]string{"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20},
		{"no number", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "much\n"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range tt.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := cgroupLimit(root); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if n := Default(); n < minDefault {
		t.Errorf("the default is %d bytes", n)
	}
}
