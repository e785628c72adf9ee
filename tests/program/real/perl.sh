# SPDX-License-Identifier: GPL-2.0-only
# Processes, pipes, sockets and signals by Perl.
perl -e '
use strict; use warnings; use Socket; use IO::Handle; use POSIX ":sys_wait_h"; $| = 1;
my %words; $words{$_ % 977} .= chr(65 + $_ % 26) for 1 .. 100000;
print length($words{$_}), " " for (sort { $a <=> $b } keys %words)[0 .. 9]; print "\n";
my @children = map { my $pid = fork; exit $_ unless $pid; $pid } 1 .. 20;
print join(" ", map { waitpid $_, 0; $? >> 8 } @children), "\n";
socketpair(my $one, my $two, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die;
$_->autoflush(1) for $one, $two;
if (!fork) { close $one; while (<$two>) { print $two uc } exit 0 }
close $two; print $one "line $_\n" for 1 .. 500; shutdown $one, 1;
my $bytes = 0; $bytes += length while <$one>; print "$bytes\n"; wait;
my $alarms = 0; local $SIG{ALRM} = sub { $alarms++ };
for (1 .. 3) { alarm 1; select undef, undef, undef, 5 } print "$alarms\n";
open my $pipe, "-|", "seq 1000 | sort -r" or die;
my @lines = <$pipe>; print $lines[0], scalar @lines, "\n";
printf "%s %s\n", unpack("H*", pack "NnCd", 1, 2, 3, 0.1), join ",", "a1b22c333" =~ /(\d+)/g;
'
