package finding_test

import (
	"fmt"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
)

func TestStringNamesWhatItIsAbout(t *testing.T) {
	orders := abi.TopicIDPartition{Topic: "orders", Partition: 3}
	onFile := finding.Of(orders, 17, "it is short")
	onFile.Path = "/data/x.log"
	for _, tt := range []struct {
		name string
		f    finding.Finding
		want string
	}{
		{"a file", finding.At("/data/x.log", "it is %d bytes", 3), "/data/x.log: it is 3 bytes"},
		{"a partition", finding.Of(orders, finding.Unknown, "it is short"), "orders-3: it is short"},
		{"an offset in a file", onFile, "orders-3, offset 17, /data/x.log: it is short"},
		{"a topic", finding.Finding{Topic: "orders", Partition: finding.Unknown, Offset: finding.Unknown, What: "two ids"}, "orders: two ids"},
		{"nothing", finding.At("", "all is lost"), "all is lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.f.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConcerns(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    finding.Finding
		want bool
	}{
		{"the partition's", finding.Finding{Topic: "orders", Partition: 3}, true},
		{"its topic's", finding.Finding{Topic: "orders", Partition: finding.Unknown}, true},
		{"another partition's", finding.Finding{Topic: "orders", Partition: 4}, false},
		{"another topic's", finding.Finding{Topic: "x", Partition: 3}, false},
		{"a file of all", finding.At("/data", "lost"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.f.Concerns("orders", 3); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestListKeepsEachOnceAndIsBounded(t *testing.T) {
	var l finding.List
	if !l.Add(finding.At("a", "x")) || l.Add(finding.At("a", "x")) {
		t.Error("the first is new, the second is not")
	}
	for i := range 1500 {
		l.Add(finding.At("b", "%s", fmt.Sprint(i)))
	}
	kept, more := l.All()
	if len(kept) != 1000 || more != 501 || kept[0].Path != "a" {
		t.Errorf("%d kept, %d more", len(kept), more)
	}
}
