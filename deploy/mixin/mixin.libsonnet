// What monitoring mixins have, from the files beside this one.
{
  grafanaDashboards+:: {
    'moetop-fleet.json': import 'dashboards/fleet.json',
    'moetop-server.json': import 'dashboards/server.json',
    'moetop-experts.json': import 'dashboards/experts.json',
    'moetop-cost.json': import 'dashboards/cost.json',
  },
  prometheusRules+:: std.parseYaml(importstr 'rules/recording.yml'),
  prometheusAlerts+:: std.parseYaml(importstr 'rules/alerts.yml'),
}
