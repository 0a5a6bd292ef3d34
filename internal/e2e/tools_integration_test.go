//go:build integration

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// kafkaTools are Kafka's own command line tools, against an address.
type kafkaTools struct{ classpath, address string }

func newKafkaTools(t *testing.T, address string) kafkaTools {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: Kafka's tools need a JDK 17 or newer and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)", err)
		}
	}
	out, err := exec.Command(filepath.Join(sharedDir(t, "kafka"), "kafka-up"), "--print-classpath").Output()
	if err != nil {
		t.Fatalf("kafka-up --print-classpath: %v", err)
	}
	return kafkaTools{strings.TrimSpace(string(out)), address}
}

// ended is how a tool ended and what it wrote, with one space between words.
type ended struct {
	stdout, all string
	failed      bool
}

var spaces = regexp.MustCompile(`[ \t]+`)

// run runs a tool: its class, in Kafka's package of tools where no other is named, and its arguments, of which "@" is the
// server.
func (k kafkaTools) run(t *testing.T, command string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	class, rest, _ := strings.Cut(command, " ")
	if !strings.HasPrefix(class, "kafka.") {
		class = "org.apache.kafka.tools." + class
	}
	args := strings.Fields(strings.Replace(rest, "@", "--bootstrap-server "+k.address, 1))
	var stdout bytes.Buffer
	var all lockedBuffer
	cmd := exec.CommandContext(ctx, "java", append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", k.classpath, class}, args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &all), &all
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s does not end: %s", command, all.String())
	}
	return ended{spaces.ReplaceAllString(stdout.String(), " "), spaces.ReplaceAllString(all.String(), " "), err != nil}
}

// toolCase is a tool and what it must write; of one that fails both to stdout and to stderr.
type toolCase struct {
	command string
	fails   bool
	want    []string
}

func (k kafkaTools) check(t *testing.T, cases []toolCase) {
	t.Helper()
	for _, c := range cases {
		name, _, _ := strings.Cut(c.command, " ")
		t.Run(name[strings.LastIndex(name, ".")+1:], func(t *testing.T) {
			got := k.run(t, c.command)
			text := got.stdout
			if c.fails {
				text = got.all
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s does not say %q:\n%.3000s", c.command, want, got.all)
				}
			}
			if got.failed != c.fails {
				t.Errorf("%s failed: %v:\n%.3000s", c.command, got.failed, got.all)
			}
		})
	}
}

// TestKafkaTools: Kafka's own tools do on a served fixture what they do at a broker, and what is not served ends them with a
// sentence.
func TestKafkaTools(t *testing.T) {
	s := startServe(t, "txn")
	k := newKafkaTools(t, s.address)
	for name, part := range map[string]func(*testing.T, kafkaTools){"topics": toolsOnTopics, "offsets": toolsOnOffsets, "cluster": toolsOnCluster,
		"consumers": toolsThatConsume, "groups": toolsOnGroups, "members": toolsOnMembers, "refused": toolsRefused} {
		t.Run(name, func(t *testing.T) { part(t, k) })
	}
	s.stop(t)
}

func toolsOnTopics(t *testing.T, k kafkaTools) {
	if got := k.run(t, "TopicCommand @ --list"); got.stdout != "payments\n" {
		t.Errorf("--list: %s", got.all)
	}
	k.check(t, []toolCase{
		{"TopicCommand @ --describe", false, []string{
			"Topic: payments TopicId: C2DlP9KATGer7YfmBshulw PartitionCount: 2 ReplicationFactor: 1 Configs: ", "remote.storage.enable=true", "retention.ms=-1", "retention.bytes=-1",
			"Partition: 0 Leader: 1 Replicas: 1 Isr: 1", "Partition: 1 Leader: 1 Replicas: 1 Isr: 1"}},
		{"TopicCommand @ --describe --topic none", true, []string{"Topic 'none' does not exist as expected"}},
		{"kafka.admin.ConfigCommand @ --describe --entity-type topics", false, []string{"Dynamic configs for topic payments are:\n", "\n remote.storage.enable=true ", "\n retention.ms=-1 "}},
		{"kafka.admin.ConfigCommand @ --describe --all --entity-type topics --entity-name payments", false, []string{"All configs for topic payments are:\n", "\n remote.storage.enable=true ", "\n retention.ms=-1 "}},
	})
}

// toolsOnOffsets: as the broker had them. By time it finds transaction markers, which are younger than all records.
func toolsOnOffsets(t *testing.T, k kafkaTools) {
	for at, want := range map[string]string{"-1": "payments:0:1387\npayments:1:399\n", "latest": "payments:0:1387\npayments:1:399\n",
		"-2": "payments:0:0\npayments:1:0\n", "-4": "payments:0:1129\npayments:1:0\n", "-5": "payments:0:1254\npayments:1:393\n",
		"-3": "payments:0:1386\npayments:1:398\n", "1700000100000": "payments:0:13\npayments:1:3\n"} {
		if got := k.run(t, "GetOffsetShell @ --time "+at); got.failed || got.stdout != want {
			t.Errorf("--time %s: %s", at, got.all)
		}
	}
	if got := k.run(t, "GetOffsetShell @ --topic-partitions payments:1"); got.stdout != "payments:1:399\n" {
		t.Errorf("one partition: %s", got.all)
	}
	k.check(t, []toolCase{{"GetOffsetShell @ --topic none", true, []string{"Could not match any topic-partitions"}}})
}

func toolsOnCluster(t *testing.T, k kafkaTools) {
	b, err := kadm.NewClient(client(t, k.address)).BrokerMetadata(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	k.check(t, []toolCase{
		{"ClusterTool cluster-id @", false, []string{"Cluster ID: " + b.Cluster + "\n"}},
		{"ClusterTool list-endpoints @", false, []string{"1 127.0.0.1 " + strings.TrimPrefix(k.address, "127.0.0.1:") + " null unfenced broker"}},
		{"BrokerApiVersionsCommand @", false, []string{k.address + " (id: 1 rack: null isFenced: false) -> (\n", "Fetch(1): 4 to ", "OffsetCommit(8): 0 to ",
			"ConsumerGroupHeartbeat(68): 0 to 1 [usable: 1]", "EndTxn(26): 0 to 5 ", "GetTelemetrySubscriptions(71): UNSUPPORTED"}},
		{"LogDirsCommand @ --describe", false, []string{`"broker":1,`, `{"partition":"payments-0","size":68638,"offsetLag":0,"isFuture":false}`, `{"partition":"payments-1","size":97428,`, `"error":null`}},
		{"LogDirsCommand @ --describe --topic-list none", false, []string{`"partitions":[]`}},
		{"kafka.admin.ConfigCommand @ --describe --entity-type brokers", false, []string{"Dynamic configs for broker 1 are:\n"}},
		{"kafka.admin.ConfigCommand @ --describe --all --entity-type brokers --entity-name 1", false, []string{"All configs for broker 1 are:\n", " fetch.max.bytes=57671680 ", " max.connections="}},
	})
}

// toolsThatConsume: all that was recorded comes, in both isolation levels and both group protocols, and from an offset on.
func toolsThatConsume(t *testing.T, k kafkaTools) {
	const shown = "consumer.ConsoleConsumer @ --topic payments --timeout-ms 60000 --formatter-property print.offset=true --formatter-property print.partition=true "
	for isolation := range levels {
		want := len(recorded(t, "txn", isolation))
		for _, protocol := range []string{"classic", "consumer"} {
			got := k.run(t, fmt.Sprintf("%s --from-beginning --max-messages %d --isolation-level %s --group console-%s-%s --command-property group.protocol=%s",
				shown, want, isolation, isolation, protocol, protocol))
			if n := len(regexp.MustCompile(`(?m)^Partition:[01] Offset:\d+ \{`).FindAllString(got.stdout, -1)); n != want || got.failed {
				t.Errorf("%s, %s: %d records, want %d: %.2000s", isolation, protocol, n, want, got.all)
			}
		}
	}
	k.check(t, []toolCase{
		{shown + "--partition 0 --offset 930 --max-messages 1", false, []string{`Partition:0 Offset:930 {"id":"7465b66588010250"`}},
		{shown + "--partition 1 --offset 398 --max-messages 1", false, []string{`Partition:1 Offset:398 {`}},
		{"ConsumerPerformance @ --topic payments --num-records 1722 --timeout 60000", false, []string{", 1722, "}},
		{"VerifiableConsumer @ --topic payments --group-id verifiable --max-messages 200 --reset-policy earliest", false,
			[]string{`"name":"partitions_assigned","partitions":[{"topic":"payments","partition":0},{"topic":"payments","partition":1}]`, `"name":"offsets_committed"`, `"success":true`}},
		{"VerifiableConsumer @ --topic payments --group-id verifiable848 --group-protocol consumer --max-messages 200 --reset-policy earliest", false,
			[]string{`"name":"offsets_committed"`, `"success":true`}},
	})
}

// toolsOnGroups moves a group without members about, and deletes it.
func toolsOnGroups(t *testing.T, k kafkaTools) {
	const group = "consumer.group.ConsumerGroupCommand @ "
	k.check(t, []toolCase{
		{group + "--reset-offsets --group moved --topic payments --to-earliest --execute", false, []string{"moved payments 0 0\nmoved payments 1 0\n"}},
		{group + "--describe --group moved --state", false, []string{"moved " + k.address + " (1) - Empty 0\n"}},
		{group + "--reset-offsets --group moved --topic payments --to-latest --dry-run", false, []string{"moved payments 0 1387\nmoved payments 1 399\n"}},
		{group + "--describe --group moved", false, []string{"moved payments 0 0 1387 1387 - - -\nmoved payments 1 0 399 399 - - -\n"}}, // the dry run moved nothing
		{group + "--reset-offsets --group moved --topic payments:0 --to-offset 1030 --execute", false, []string{"moved payments 0 1030\n"}},
		{group + "--reset-offsets --group moved --topic payments:0 --shift-by -100 --execute", false, []string{"moved payments 0 930\n"}},
		{group + "--reset-offsets --group moved --topic payments:1 --to-latest --execute", false, []string{"moved payments 1 399\n"}},
		{group + "--describe --group moved --offsets", false, []string{"moved payments 0 930 1387 457 - - -\nmoved payments 1 399 399 0 - - -\n"}},
		{"consumer.ConsoleConsumer @ --topic payments --group moved --max-messages 1 --timeout-ms 60000 --formatter-property print.offset=true", false, []string{`Offset:930 {"id":"7465b66588010250"`}},
		{group + "--delete-offsets --group moved --topic payments:1", false, []string{"payments 1 Successful"}},
		{group + "--describe --group moved", false, []string{"moved payments 0 931 1387 456 - - -\n"}},
		{group + "--list --state empty", false, []string{"moved Empty"}},
		{group + "--list", false, []string{"moved\n"}},
		{group + "--describe --all-groups", false, []string{"moved payments 0 931 1387 456 - - -\n"}},
		{"GroupsCommand @ --list", false, []string{"moved Classic"}},
		{group + "--delete --group moved", false, []string{"Deletion of requested consumer groups ('moved') was successful."}},
		{group + "--describe --group moved", false, []string{"GroupIdNotFoundException"}},
	})
	if got := k.run(t, group+"--list"); strings.Contains(got.stdout, "moved") {
		t.Errorf("a group that was deleted is listed: %s", got.all)
	}
}

// toolsOnMembers: groups of both protocols with a member, which are shown and cannot be moved or deleted.
func toolsOnMembers(t *testing.T, k kafkaTools) {
	const group = "consumer.group.ConsumerGroupCommand @ "
	ctx, cancel := context.WithCancel(context.Background())
	var polls sync.WaitGroup
	defer polls.Wait()
	defer cancel()
	for name, protocol := range groupProtocols {
		cl := member(t, k.address, name, append([]kgo.Opt{kgo.ClientID("reader")}, protocol...))
		polls.Go(func() { // ends with cancel; the deferred Wait waits
			for ctx.Err() == nil {
				cl.PollFetches(ctx)
				cl.CommitUncommittedOffsets(ctx)
			}
		})
	}
	for name := range groupProtocols {
		state := name + " " + k.address + " (1) range Stable 1\n"
		hammer.Eventually(t, time.Minute, func() bool { return strings.Contains(k.run(t, group+"--describe --state --group "+name).stdout, state) })
		hammer.Eventually(t, time.Minute, func() bool {
			return strings.Contains(k.run(t, group+"--describe --group "+name).stdout, name+" payments 0 1387 1387 0 ")
		})
		k.check(t, []toolCase{
			{group + "--describe --group " + name, false, []string{name + " payments 0 1387 1387 0 ", name + " payments 1 399 399 0 ", "/127.0.0.1 reader\n"}},
			{group + "--describe --members --verbose --group " + name, false, []string{name + " ", " /127.0.0.1 reader 2 ", " payments:0,1 "}},
			{group + "--reset-offsets --topic payments --to-earliest --execute --group " + name, false, []string{"can only be reset if the group '" + name + "' is inactive, but the current state is Stable"}},
			{group + "--delete --group " + name, false, []string{"GroupNotEmptyException"}},
			{group + "--delete-offsets --topic payments:0 --group " + name, false, []string{"payments 0 Error: "}},
		})
	}
	k.check(t, []toolCase{
		{group + "--list --type consumer", false, []string{"KIP-848 Consumer"}},
		{group + "--list --state stable --type classic", false, []string{"classic Classic Stable"}},
	})
}

// toolsRefused: what would write is refused as read-only, and what is not served says so; nothing hangs.
func toolsRefused(t *testing.T, k kafkaTools) {
	const readOnly = "rsmhost serves tiered topics read-only"
	records := filepath.Join(t.TempDir(), "records.json")
	if err := os.WriteFile(records, []byte(`{"version":1,"partitions":[{"topic":"payments","partition":0,"offset":5}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	k.check(t, []toolCase{
		{"TopicCommand @ --create --topic new", true, []string{readOnly}},
		{"TopicCommand @ --delete --topic payments", true, []string{readOnly}},
		{"TopicCommand @ --alter --topic payments --partitions 5", true, []string{readOnly}},
		{"kafka.admin.ConfigCommand @ --alter --entity-type topics --entity-name payments --add-config retention.ms=1", true, []string{readOnly}},
		{"DeleteRecordsCommand @ --offset-json-file " + records, false, []string{"partition: payments-0 error: org.apache.kafka.common.errors.PolicyViolationException"}},
		{"VerifiableProducer @ --topic payments --max-messages 2", false, []string{"TopicAuthorizationException", `"sent":2,"acked":0`}},
		{"MetadataQuorumCommand @ describe --status", true, []string{"UnsupportedVersionException", "it has no metadata quorum"}},
		{"AclCommand @ --list", true, []string{"SecurityDisabledException", "no rules are given"}},
		{"TransactionsCommand @ list", false, []string{"TransactionalId"}},
		{"TransactionsCommand @ describe-producers --topic payments --partition 0", true, []string{"rsmhost keeps no state of producers"}},
		{"reassign.ReassignPartitionsCommand @ --list", false, []string{"No partition reassignments found."}},
		{"LeaderElectionCommand @ --election-type preferred --all-topic-partitions", true, []string{"PolicyViolationException"}},
	})
	for command, want := range map[string][]string{ // which end in different ways
		"consumer.ConsoleShareConsumer @ --topic payments --timeout-ms 5000 --max-messages 1":     {"The cluster does not support the share group protocol", "Processed a total of 0 messages"},
		"ProducerPerformance @ --topic payments --num-records 3 --record-size 10 --throughput -1": {"TopicAuthorizationException"},
	} {
		got := k.run(t, command)
		for _, w := range want {
			if !strings.Contains(got.all, w) {
				t.Errorf("%s does not say %q: %.2000s", command, w, got.all)
			}
		}
	}
}
